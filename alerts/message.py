"""
A frozen snapshot, made into a message that a tired person understands; pure.

`render` decides the words: the state, the subject, the headline, the facts. The templates lay them
out as text and HTML; a channel with a form of its own, such as Slack, does that itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Self
from urllib.parse import quote, urlsplit

from jinja2 import FileSystemLoader, StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from alerts.conditions import (
    BLINDNESS,
    CONDITIONS,
    ERROR_RATE,
    FLEET_FELL,
    MONITOR_PREFIX,
    RULE_PREFIX,
)
from alerts.facts import Fact, facts_of, rate_before
from alerts.model import CLOSED, OVER, SAMPLE_CHARS, Reason, Snapshot
from monitor.errors import DeliveryError
from monitor.format import (
    duration,
    percent,
    plain_text,
    short_id,
    shorten,
    utc_time,
)
from monitor.models.alerting import AlertEvent
from monitor.models.status import Status
from monitor.report.render import Section
from monitor.store.samples import StoredSample

_TEMPLATES = Path(__file__).parent / "templates"
_SUBJECT_CHARS = 200
_MOST_DIGEST_LINES = 14
_MOST_APPS_NAMED = 5
_COLOURS = {
    "RESOLVED": "#1a7f37",
    "WARNING": "#9a6700",
    "CRITICAL": "#b42318",
    "CLOSED": "#57606a",
    "EXPIRED": "#57606a",
    "STABLE": "#1a7f37",
}
_CLOSED_BECAUSE = {
    Reason.EXPIRED_NO_DATA: "closed because data stopped, not because it recovered",
    Reason.SUPERSEDED: "closed because the scorer or a threshold changed, not because it recovered",
    Reason.NO_LONGER_EVALUATED: "closed because nothing evaluates it any more, not because it"
    " recovered",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A PNG that the HTML shows by its id; ``label`` says the same in words."""

    cid: str
    png: bytes
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One sample that failed: what was asked and answered, and what the scorer found."""

    question: str
    answer: str
    finding: str = ""
    link: str | None = None

    @classmethod
    def of(cls, stored: StoredSample, snapshot: Snapshot) -> Self | None:
        """Return a sample as the example of an alert; None where it has no answer any more."""
        interaction, metric = stored.sample.interaction, snapshot.key.metric
        if not interaction.output:
            return None
        said = (
            each.evaluation.explanation
            for each in stored.evaluations
            if each.metric == metric and each.passed is False
        )
        return cls(
            question=plain_text(interaction.query or "", SAMPLE_CHARS),
            answer=plain_text(interaction.output, SAMPLE_CHARS),
            finding=plain_text(next(filter(None, said), ""), SAMPLE_CHARS),
            link=page_link(snapshot.report_url, "sample", snapshot.example_id),
        )


@dataclass(frozen=True, kw_only=True)
class Message:
    """
    What a channel sends; all texts are single lines without control characters.

    Its plain text and its HTML are laid out when a channel asks for them; DeliveryError is raised
    where that fails, before anything was sent.
    """

    word: str  #: the state: CRITICAL, WARNING, RESOLVED ...
    title: str  #: app and metric
    headline: str
    facts: tuple[Fact, ...]
    samples: tuple[str, ...]  #: what the scorer said of the worst samples
    advice: str  #: the words in front of the command
    command: str  #: what to type
    link: str | None  #: the page about the incident, where it can be acknowledged
    footer: str
    app: str
    incident_id: str
    first: bool  #: the first message about this incident
    at: datetime
    began: datetime
    recipient: str
    event: str
    severity: str
    over: bool  #: nothing of the incident fires any more
    data: Mapping[str, object]  #: the same for programs
    example: Example | None = None
    test: bool = False
    thread: str = ""  #: what the channel calls the first message about the incident
    silence_link: str | None = None  #: the page to silence its app, while something fires
    own_subject: str = ""  #: in place of state, title and headline
    labels: Mapping[str, str] = field(default_factory=dict)  #: of its app, by the routes file
    sections: tuple[Section, ...] = ()  #: of a periodic digest, in place of single facts
    pictures: tuple[Picture, ...] = ()

    @property
    def subject(self) -> str:
        """Return the message in one line."""
        usual = f"[{self.word}] {self.title}: {self.headline}"
        return shorten(self.own_subject or usual, _SUBJECT_CHARS)

    @cached_property
    def text(self) -> str:
        """The whole message in lines of plain text."""
        return self._laid_out("alert.txt.j2", escape=False)

    @cached_property
    def html(self) -> str:
        """The whole message as a page of HTML."""
        colour = _COLOURS.get(self.word.rpartition(" ")[2], _COLOURS["CLOSED"])
        return self._laid_out("alert.html.j2", escape=True, colour=colour)

    def _laid_out(self, template: str, *, escape: bool, **values: object) -> str:
        try:
            layout = template_environment(escape=escape).get_template(template)
            return layout.render(message=self, **values)
        except Exception as error:  # noqa: BLE001 - its text may hold a secret
            code = f"rendering:{type(error).__name__}"
            raise DeliveryError("rendering error", code=code[:100], ambiguous=False) from None


def render(
    snapshot: Snapshot,
    tells: Iterable[AlertEvent],
    *,
    recipient: str = "",
    may_repeat: bool = False,
    thread: str = "",
    digest: Sequence[str] = (),
    example: Example | None = None,
) -> Message:
    """
    Return the message about the events *tells*, from the evidence in *snapshot*.

    *digest* has a line for each other incident that it reports as well; *example* is the sample
    that `Snapshot.example_id` names, if it is still stored.
    """
    news = frozenset(tells)
    over = bool(news & OVER) and not snapshot.others
    word = _state_word(snapshot, news)
    footer = (
        f"incident {snapshot.incident_id}, event {snapshot.sequence},"
        f" decided {utc_time(snapshot.at)}"
    )
    samples = (plain_text(text, SAMPLE_CHARS) for text in snapshot.samples)
    shown = None if over else example
    silences = None if over else page_link(snapshot.report_url, "silences")
    matcher = quote(f"app={snapshot.key.app}", safe="")
    return Message(
        word=f"TEST {word}" if snapshot.test else word,
        title=_subject_of(snapshot),
        headline=_headline(snapshot, news),
        facts=facts_of(snapshot, news, digest),
        samples=()
        if over
        else tuple(text for text in samples if shown is None or text != shown.finding),
        advice="Review" if over else "What to do",
        command=f"groundwatch alerts show {short_id(snapshot.incident_id)}",
        link=page_link(snapshot.report_url, "incidents", snapshot.incident_id),
        silence_link=silences and f"{silences}?matchers={matcher}",
        footer=f"{footer} (may repeat an earlier message)" if may_repeat else footer,
        app=plain_text(snapshot.key.app, 200),
        incident_id=snapshot.incident_id,
        first=AlertEvent.FIRED in news,
        at=snapshot.at,
        began=snapshot.opened_at,
        recipient=recipient,
        event=snapshot.event.value,
        severity=(snapshot.peak if over else snapshot.level).value,
        over=over,
        data=_data(snapshot),
        example=shown,
        labels=snapshot.labels,
        test=snapshot.test,
        thread=thread,
    )


def without_samples(message: Message) -> Message:
    """Return *message* without transcripts and what the scorer said of single samples."""
    return replace(message, samples=(), example=None)


def digest_lines(snapshots: Sequence[Snapshot]) -> list[str]:
    """Return a line for each of several incidents, for a message that reports all of them."""
    lines = []
    for snapshot in snapshots[:_MOST_DIGEST_LINES]:
        news = frozenset({snapshot.event})
        word, subject = _state_word(snapshot, news), _subject_of(snapshot)
        lines.append(f"{word} {subject}: {_headline(snapshot, news)}")
    more = len(snapshots) - len(lines)
    return [*lines, f"{more} more incidents; groundwatch alerts ls"] if more > 0 else lines


def page_link(base: str | None, *path: str) -> str | None:
    """Return the address of a page below *base*; None unless *base* is a web address."""
    if base is None or urlsplit(base).scheme not in {"http", "https"}:
        return None
    root = quote(plain_text(base, 1000), safe=":/?#[]@!$&'()*+,;=%~").rstrip("/")
    return "/".join((root, *(quote(part, safe="") for part in path)))


@cache
def template_environment(*, escape: bool) -> SandboxedEnvironment:
    """Return the sandbox in which templates are filled."""
    return SandboxedEnvironment(
        loader=FileSystemLoader(_TEMPLATES),
        # Never by the name of the file: `select_autoescape` leaves `.html.j2` alone.
        autoescape=escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _state_word(snapshot: Snapshot, tells: frozenset[AlertEvent]) -> str:
    if snapshot.reason in CLOSED:
        return "EXPIRED" if snapshot.reason == Reason.EXPIRED_NO_DATA else "CLOSED"
    if AlertEvent.SETTLED in tells:
        return "STABLE"
    if AlertEvent.RESOLVED in tells:
        return "RESOLVED"
    word = snapshot.level.value.upper()
    if AlertEvent.FIRED in tells:
        return word if snapshot.well_since is None else f"AGAIN {word}"
    if AlertEvent.ESCALATED in tells:
        return f"NOW {word}"
    return f"ALSO {word}" if AlertEvent.JOINED in tells else f"STILL {word}"


def _subject_of(snapshot: Snapshot) -> str:
    """Return the app and metric, or every app of a common cause."""
    key = snapshot.key
    apps = list(dict.fromkeys([key.app, *(other.app for other in snapshot.others)]))
    if snapshot.cause is not None and len(apps) > 1:
        more = len(apps) - _MOST_APPS_NAMED + snapshot.more
        named = ", ".join(plain_text(app, 40) for app in apps[:_MOST_APPS_NAMED])
        named = f"{named} and {more} more" if more > 0 else named
        return f"{named} · {plain_text(snapshot.cause, 100)}"
    if key.metric == FLEET_FELL:
        fell = snapshot.verdict.reason.partition(" (")[2].partition("):")[0]
        return plain_text(fell or "all apps", 160)
    names = [key.app, key.metric] + ([key.segment] if key.segment != "*" else [])
    if snapshot.event in OVER and not snapshot.others:
        # What ends is the incident, with all that was in it.
        metrics = dict.fromkeys([key.metric, *(other.metric for other in snapshot.recovered)])
        names[1] = ", ".join(metrics)
    return " · ".join(plain_text(name, 80) for name in names)


def _headline(snapshot: Snapshot, tells: frozenset[AlertEvent]) -> str:
    verdict = snapshot.verdict
    length = duration(snapshot.at - snapshot.opened_at)
    resolved, said = AlertEvent.RESOLVED in tells, ""
    if snapshot.reason in CLOSED:
        why = _CLOSED_BECAUSE[Reason(snapshot.reason)]
        said = f"{why}; was {snapshot.peak.value}, fired {length} ago"
    elif AlertEvent.SETTLED in tells:
        said = f"stable again: it began {snapshot.onsets} times, and has been healthy for 8 h"
    elif snapshot.key.metric.startswith(MONITOR_PREFIX):
        condition = CONDITIONS.get(snapshot.key.metric, BLINDNESS)
        said = f"{condition.well}, after {length}" if resolved else condition.ill
    elif resolved:
        said = f"healthy again after {length}; worst: {snapshot.peak.value}"
    elif verdict.status is Status.BLIND:
        said = f"no news, still firing after {length}: the monitor is blind"
    return said or _rate_headline(snapshot, tells, length)


def _rate_headline(snapshot: Snapshot, tells: frozenset[AlertEvent], length: str) -> str:
    verdict = snapshot.verdict
    begins = AlertEvent.FIRED in tells or snapshot.at == snapshot.opened_at
    before = rate_before(verdict)
    if snapshot.key.metric.startswith(RULE_PREFIX):
        said = plain_text(verdict.reason, 200)
    elif snapshot.key.metric == ERROR_RATE and verdict.pass_rate is not None:
        said = f"{percent(1 - verdict.pass_rate)} of requests fail"
    elif verdict.pass_rate is None:
        said = f"{snapshot.level.value}, with no scores in the last {duration(verdict.window_s)}"
    elif AlertEvent.FIRED in tells and before is not None and before > verdict.pass_rate:
        began = verdict.onset or snapshot.since
        rates = f"from {percent(before)} to {percent(verdict.pass_rate)}"
        said = f"fell {rates} at {began:%H:%M UTC} ({duration(snapshot.at - began)} ago)"
    elif verdict.pass_rate == 0:
        said = "no answer passes"
    else:
        said = f"only {percent(verdict.pass_rate)} of answers pass"
    if begins:
        return said
    return f"got worse: {said}" if AlertEvent.ESCALATED in tells else f"after {length} still {said}"


def _data(snapshot: Snapshot) -> dict[str, object]:
    """Return what a program wants to know, each under a name of its own."""
    verdict, key = snapshot.verdict, snapshot.key
    moments = {name: getattr(verdict, name) for name in ("onset", "onset_earliest", "onset_latest")}
    return {
        "app": plain_text(key.app, 200),
        "metric": plain_text(key.metric, 200),
        "segment": plain_text(key.segment, 200),
        "window_s": key.window_s,
        "incident_id": snapshot.incident_id,
        "sequence": snapshot.sequence,
        "event": snapshot.event.value,
        "level": snapshot.level.value,
        "peak_level": snapshot.peak.value,
        "cause": snapshot.cause and plain_text(snapshot.cause, 300),
        "reason": plain_text(verdict.reason, 300),
        "pass_rate": verdict.pass_rate,
        "low": verdict.low,
        "high": verdict.high,
        "n": verdict.n,
        "changed": plain_text(snapshot.background.changed, 400),
        "segments": plain_text(snapshot.background.segments, 400),
        "pipeline": plain_text(snapshot.background.pipeline, 300),
        **{name: None if at is None else at.isoformat() for name, at in moments.items()},
        "since": snapshot.since.isoformat(),
        "opened_at": snapshot.opened_at.isoformat(),
        "at": snapshot.at.isoformat(),
        **{
            name: [
                {k: plain_text(str(v), 200) for k, v in other.model_dump(mode="json").items()}
                for other in alerts
            ]
            for name, alerts in (("others", snapshot.others), ("recovered", snapshot.recovered))
        },
        "more": snapshot.more,
        "flapping": snapshot.flapping,
        "test": snapshot.test,
    }
