"""A digest in sentences, section by section; every channel only chooses how they look."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from monitor.models import Status
from monitor.models.movement import Movement
from monitor.report.digest import Course, Coverage, Digest, Episode, NoisyKey, StatusMove
from monitor.report.format import (
    count,
    duration,
    number,
    percent,
    plain_text,
    points_with_interval,
    rate_with_interval,
    short_id,
    sparkline,
    usd,
)
from monitor.report.words import ICONS, WORDS, headline, status_word

_NAME_CHARS = 60
_DAY_S = 86_400


class Section(NamedTuple):
    """A heading and its lines; each is one line without control characters."""

    title: str
    lines: Sequence[str]
    is_chart: bool = False  #: the lines are drawn with characters of equal width


def digest_title(digest: Digest) -> str:
    """Say which digest it is, such as "daily digest"."""
    cadence = digest.name.partition("-")[0]
    if cadence in {"daily", "weekly"}:
        return f"{cadence} digest"
    return "digest"


def digest_span(digest: Digest) -> str:
    """Say what it is about, in its time zone."""
    zone = plain_text(digest.zone, 40)
    return f"{_time(digest.start, digest)} to {_time(digest.end, digest)}, {zone}"


def digest_verdict(digest: Digest) -> str:
    """Say in a sentence how all is, and whether anybody has to do anything."""
    said = headline({plain_text(app, _NAME_CHARS): s for app, s in digest.statuses.items()})
    return f"{said} Nothing to do." if digest.nothing_to_do else said


def digest_sections(digest: Digest) -> list[Section]:
    """Write everything else, the most urgent first; what has nothing to say is left out."""
    found = [
        Section("To do", list(_to_do(digest))),
        Section("What changed", list(_changed(digest))),
        Section("Incidents", list(_incidents(digest))),
        Section("Movers", list(_movers(digest))),
        Section("Pass rates", [_course(item) for item in digest.courses], is_chart=True),
        Section("Noisiest", [_noisy(item) for item in digest.noisiest]),
        Section("Coverage", [_coverage(item) for item in digest.coverage]),
        Section("Cost", [_cost(digest)]),
    ]
    return [section for section in found if section.lines]


def chart_label(course: Course) -> str:
    """Name a course with its status and figures, for a chart or in place of one."""
    icon, word = ICONS[course.status], status_word(course.status, course.n)
    return f"{icon} {_key(course.app, course.metric)}: {word}, {_figures(course)}"


def _to_do(digest: Digest) -> Iterator[str]:
    for app, status in digest.statuses.items():
        if status in {Status.CRITICAL, Status.WARNING, Status.BLIND}:
            name = plain_text(app, _NAME_CHARS)
            command = f"groundwatch report --app {shlex.quote(name)}"
            yield f"{ICONS[status]} {name} is {WORDS[status]}: {command}"
    for episode in digest.episodes:
        if episode.is_open:
            yield (
                f"{_key(episode.app, episode.metric)} has been {episode.level} for"
                f" {duration(episode.lasted_s)}: groundwatch alerts show"
                f" {short_id(episode.incident_id)}"
            )
    yield from _falls(digest)
    for item in digest.low_coverage:
        yield (
            f"{plain_text(item.app, _NAME_CHARS)}: only {percent(item.share)} of the samples were"
            " looked at: groundwatch doctor"
        )
    if digest.dead_letters:
        yield (
            f"{count(digest.dead_letters, 'alert message')} did not get through:"
            " groundwatch alerts outbox ls --dead"
        )


def _falls(digest: Digest) -> Iterator[str]:
    for item in digest.movers:
        if item.difference < 0:
            command = shlex.join(("groundwatch", "show", *_names(item.app, item.metric)))
            yield f"{_key(item.app, item.metric)} fell: {command}"


def _changed(digest: Digest) -> Iterator[str]:
    yield from (_move(item, digest) for item in digest.moves)
    for release in digest.releases:
        name, app = plain_text(release.release, _NAME_CHARS), plain_text(release.app, _NAME_CHARS)
        yield f"release {name} of {app} at {_time(release.at, digest)}"
    for app, metric in digest.new_series:
        yield (
            f"{_key(app, metric)} is a new series (a new metric, or another judge, prompt or line"
            " of passing): not compared"
        )


def _move(item: StatusMove, digest: Digest) -> str:
    often = f", {item.changes} changes" if item.changes > 1 else ""
    after = f"{ICONS[item.after]} {WORDS[item.after]}"
    when = f"since {_time(item.at, digest)}{often}"
    if item.before is None:
        return f"{_key(item.app, item.metric)} is new, and {after} {when}"
    if item.before is item.after:
        return f"{_key(item.app, item.metric)} was another and is again {after} {when}"
    return f"{_key(item.app, item.metric)} was {WORDS[item.before]}, is {after} {when}"


def _incidents(digest: Digest) -> Iterator[str]:
    yield from (_episode(item, digest) for item in digest.episodes)
    if digest.more_episodes:
        yield f"and {count(digest.more_episodes, 'more incident')}: groundwatch alerts ls"


def _episode(item: Episode, digest: Digest) -> str:
    state = "still open after" if item.is_open else "over after"
    began = _time(item.opened_at, digest)
    key = _key(item.app, item.metric)
    return f"{key}: {item.level} from {began}, {state} {duration(item.lasted_s)}"


def _movers(digest: Digest) -> Iterator[str]:
    """Tell those that moved for certain; where none did, tell that, and of how many."""
    if not digest.compared:
        return
    for item in sorted(digest.movers, key=lambda found: found.difference):
        yield _movement(item)
    if digest.movers:
        yield (
            f"{len(digest.movers)} of {digest.compared} compared with the period before; of such"
            " lists about 5 % is chance"
        )
    else:
        yield f"none of {digest.compared} compared with the period before moved beyond chance"


def _movement(item: Movement) -> str:
    mark, word = ("▼", "down") if item.difference < 0 else ("▲", "up")
    return (
        f"{mark} {_key(item.app, item.metric)} {word} {percent(item.before)} to"
        f" {percent(item.after)}, {points_with_interval(item.difference, item.low, item.high)},"
        f" n {number(item.n_before)} and {number(item.n_after)}"
    )


def _course(item: Course) -> str:
    return f"{sparkline([point.rate for point in item.points])}  {chart_label(item)}"


def _figures(item: Course) -> str:
    if item.rate is None or item.low is None or item.high is None:
        return "no scores"
    return f"{rate_with_interval(item.rate, item.low, item.high)}, n {item.n:,}"


def _noisy(item: NoisyKey) -> str:
    short = f", {item.short} over within 10 min" if item.short else ""
    told = f", {count(item.messages, 'message')}"
    return f"{_key(item.app, item.metric)}: {count(item.incidents, 'incident')}{short}{told}"


def _coverage(item: Coverage) -> str:
    name = plain_text(item.app, _NAME_CHARS)
    if not item.seen:
        return f"{name}: no interaction was seen"
    parts = [
        f"{count:,} {word}"
        for count, word in (
            (item.skipped, "skipped"),
            (item.failed, "failed"),
            (item.dropped, "dropped"),
        )
        if count
    ]
    looked = "" if item.share is None else f" ({percent(item.share)} looked at)"
    return (
        f"{name}: {item.seen:,} seen, {item.sampled:,} sampled, {item.scored:,} scored"
        f"{''.join(f', {part}' for part in parts)}{looked}"
    )


def _cost(digest: Digest) -> str:
    if not digest.cost_usd and not digest.cost_before_usd:
        return "no judge was paid"
    return f"judge {usd(digest.cost_usd)}, {usd(digest.cost_before_usd)} in the period before"


def _key(app: str, metric: str) -> str:
    return " ".join(_names(app, metric))


def _names(app: str, metric: str) -> tuple[str, str]:
    return plain_text(app, _NAME_CHARS), plain_text(metric, _NAME_CHARS)


def _time(at: datetime, digest: Digest) -> str:
    """Write a time of the digest's zone; a week is told with its days."""
    form = "%a %d %b %H:%M" if digest.window_s > _DAY_S * 1.5 else "%d %b %H:%M"
    return f"{at.astimezone(ZoneInfo(digest.zone)):{form}}"
