"""A frozen snapshot, made into a message that a tired person understands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Literal
from urllib.parse import quote, urlsplit

from jinja2 import FileSystemLoader, StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from alerts.snapshot import Snapshot
from alerts.wording import Fact, facts, headline, state_word, subject_of
from monitor.models.alerting import AlertEvent
from monitor.report.format import plain_text, shorten, utc_time
from monitor.report.render import Section

_TEMPLATES = Path(__file__).parent / "templates"
_SUBJECT_CHARS = 200
_MOST_DIGEST_LINES = 14
_COLOURS = {
    "RESOLVED": "#1a7f37",
    "WARNING": "#9a6700",
    "CRITICAL": "#b42318",
    "CLOSED": "#57606a",
    "EXPIRED": "#57606a",
    "STABLE": "#1a7f37",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A PNG that the HTML shows by its id; ``label`` says the same in words."""

    cid: str
    png: bytes
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What a channel sends; all texts are single lines without control characters."""

    word: str  #: the state: CRITICAL, WARNING, RESOLVED ...
    title: str  #: app and metric
    headline: str
    facts: tuple[Fact, ...]
    samples: tuple[str, ...]
    advice: str  #: the words in front of the command
    command: str  #: what to type
    link: str | None  #: what to open
    footer: str
    app: str
    incident_id: str
    first: bool  #: nothing was sent about this incident before
    at: datetime
    began: datetime
    recipient: str
    event: str
    level: str
    over: bool  #: nothing of the incident fires any more
    data: Mapping[str, object]  #: the same for programs
    thread: str = ""  #: what the channel calls the first message about the incident
    text: str = ""
    html: str = ""
    sections: tuple[Section, ...] = ()  #: of a periodic digest, in place of single facts
    pictures: tuple[Picture, ...] = ()

    @property
    def subject(self) -> str:
        """All of it in one line."""
        return shorten(f"[{self.word}] {self.title}: {self.headline}", _SUBJECT_CHARS)

    @property
    def lines(self) -> tuple[str, ...]:
        """The plain text, line by line."""
        return tuple(self.text.splitlines())


def render(
    snapshot: Snapshot,
    tells: Iterable[AlertEvent],
    *,
    recipient: str = "",
    may_repeat: bool = False,
    thread: str = "",
    digest: Sequence[str] = (),
) -> Message:
    """Write the message that tells the news *tells*, from the evidence in *snapshot*."""
    news = frozenset(tells)
    over = bool(news & {AlertEvent.RESOLVED, AlertEvent.SETTLED}) and not snapshot.others
    word = state_word(snapshot, news)
    message = Message(
        word=f"TEST {word}" if snapshot.test else word,
        title=subject_of(snapshot),
        headline=headline(snapshot, news),
        facts=facts(snapshot, news, digest),
        samples=() if over else tuple(plain_text(text, 300) for text in snapshot.samples),
        advice="To look back" if over else "What to do",
        command=f"groundwatch report --app {shlex.quote(plain_text(snapshot.key.app, 200))}",
        link=_link(snapshot.report_url),
        footer=_footer(snapshot, may_repeat=may_repeat),
        app=plain_text(snapshot.key.app, 200),
        incident_id=snapshot.incident_id,
        first=AlertEvent.FIRED in news,
        at=snapshot.at,
        began=snapshot.opened_at,
        recipient=recipient,
        event=snapshot.event.value,
        level=(snapshot.peak if over else snapshot.level).value,
        over=over,
        data=_data(snapshot),
        thread=thread,
    )
    return replace(message, text=_fill("txt", message), html=_fill("html", message))


def without_samples(message: Message) -> Message:
    """Leave out what the scorer said of single samples."""
    if not message.samples:
        return message
    bare = replace(message, samples=())
    return replace(bare, text=_fill("txt", bare), html=_fill("html", bare))


def digest_lines(snapshots: Sequence[Snapshot]) -> list[str]:
    """Write a line for each of several incidents, for a message that tells of all of them."""
    lines = []
    for snapshot in snapshots[:_MOST_DIGEST_LINES]:
        news = frozenset({snapshot.event})
        lines.append(
            f"{state_word(snapshot, news)} {subject_of(snapshot)}: {headline(snapshot, news)}"
        )
    more = len(snapshots) - len(lines)
    return [*lines, f"{more} more incidents; groundwatch alerts ls"] if more > 0 else lines


def _data(snapshot: Snapshot) -> dict[str, object]:
    """Give what a program wants to know, each under a name of its own."""
    verdict, key = snapshot.verdict, snapshot.key
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
        "onset": _iso(verdict.onset),
        "onset_earliest": _iso(verdict.onset_earliest),
        "onset_latest": _iso(verdict.onset_latest),
        "since": snapshot.since.isoformat(),
        "opened_at": snapshot.opened_at.isoformat(),
        "at": snapshot.at.isoformat(),
        "others": [
            {
                name: plain_text(str(text), 200)
                for name, text in other.model_dump(mode="json").items()
            }
            for other in snapshot.others
        ],
        "more": snapshot.more,
        "flapping": snapshot.flapping,
        "test": snapshot.test,
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _fill(kind: Literal["txt", "html"], message: Message) -> str:
    template = template_environment(escape=kind == "html").get_template(f"alert.{kind}.j2")
    colour = _COLOURS[message.word.rpartition(" ")[2]]
    return template.render(message=message, colour=colour)


@cache
def template_environment(*, escape: bool) -> SandboxedEnvironment:
    """Make the sandbox in which templates are filled."""
    return SandboxedEnvironment(
        loader=FileSystemLoader(_TEMPLATES),
        # Never by the name of the file: `select_autoescape` leaves `.html.j2` alone.
        autoescape=escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _footer(snapshot: Snapshot, *, may_repeat: bool) -> str:
    footer = (
        f"incident {snapshot.incident_id}, event {snapshot.sequence},"
        f" decided {utc_time(snapshot.at)}"
    )
    return f"{footer} (may repeat an earlier message)" if may_repeat else footer


def _link(url: str | None) -> str | None:
    """Let only web addresses through."""
    if url is None or urlsplit(url).scheme not in {"http", "https"}:
        return None
    return quote(plain_text(url, 1000), safe=":/?#[]@!$&'()*+,;=%~")
