"""Time ranges and addresses of pages, and a pass rate over time, step by step; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import inf
from typing import NamedTuple
from urllib.parse import quote, unquote, urlencode

from monitor.models import Status, Tally
from monitor.models.alerting import Alert
from monitor.report.model import SEVERITY
from monitor.rolling.tallies import window_stats

#: Spans that the pages offer.
SPANS: Mapping[str, int] = {
    "15m": 900, "1h": 3600, "6h": 21_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000,
}  # fmt: skip
_STEPS = 96
_LEAST_STEPS, _FIRST_STEPS = 8, 16
_LEAST_DRAWN = 12  #: steps; a chart of less would be a few dots
_LONGEST_S = 400 * 86_400


class Kept(NamedTuple):
    """From when buckets and hours are still there, in epoch seconds; before that, wider rows."""

    buckets_from_s: int = 0
    hours_from_s: int = 0


ALL_KEPT = Kept()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """From one moment to another, in epoch seconds; ``span`` names one that goes on to now."""

    from_s: int
    to_s: int
    span: str = ""
    is_fixed: bool = False
    wrong: str = ""  #: why it is not the one that was asked for

    @classmethod
    def last(cls, length_s: int, now: datetime, span: str = "", wrong: str = "") -> TimeRange:
        """Return the last *length_s* seconds."""
        now_s = int(now.timestamp())
        return cls(from_s=now_s - length_s, to_s=now_s, span=span, wrong=wrong)

    @property
    def length_s(self) -> int:
        """How long it is, in seconds."""
        return self.to_s - self.from_s

    @property
    def query(self) -> str:
        """The query of an address."""
        if not self.is_fixed:
            return urlencode({"span": self.span}) if self.span else ""
        return urlencode({"from": _text(self.from_s), "to": _text(self.to_s)})

    @property
    def begins(self) -> str:
        """When it begins, as a form field wants it, in UTC."""
        return _text(self.from_s).replace("T", " ")

    @property
    def ends(self) -> str:
        """When it ends, as a form field wants it, in UTC."""
        return _text(self.to_s).replace("T", " ")

    def step_s(self, bucket_s: int, kept: Kept = ALL_KEPT) -> int:
        """
        Return the width of a step: about a hundred of them, in whole buckets.

        From half a day on, hours are cut evenly. Where only hours or days are kept, no
        step is narrower than those.
        """
        least_s = bucket_s
        if self.from_s < kept.buckets_from_s:
            least_s = 3600
        if self.from_s < kept.hours_from_s:
            least_s = 86_400
        wanted_s = max(least_s, self.length_s // _STEPS)
        for unit_s in (86_400, 3600):
            if wanted_s >= unit_s and unit_s % bucket_s == 0:
                return -(-wanted_s // unit_s) * unit_s
        return max(1, wanted_s // bucket_s) * bucket_s

    def moved(self, by: float) -> TimeRange:
        """Return a range as long, *by* times its length later; earlier if negative."""
        shift_s = round(by * self.length_s)
        return TimeRange(from_s=self.from_s + shift_s, to_s=self.to_s + shift_s, is_fixed=True)

    def zoomed(self, factor: float) -> TimeRange:
        """Return a range around the same middle, *factor* times as long."""
        middle_s, half_s = (self.from_s + self.to_s) / 2, max(30.0, self.length_s * factor / 2)
        return TimeRange(from_s=int(middle_s - half_s), to_s=int(middle_s + half_s), is_fixed=True)


def read_time_range(
    query: Mapping[str, str],
    *,
    now: datetime,
    usual_s: int,
    bucket_s: int,
    first_s: int | None = None,
) -> TimeRange:
    """
    Return the time range in the query of an address; if unreadable, the last *usual_s* seconds.

    A range that cannot be shown as it was asked for says so in ``wrong``.

    The query has a ``span``, one of :data:`SPANS`; or ``from`` and ``to``, ISO 8601, in UTC unless
    they say otherwise, or ``to`` left out for *now*, after which nothing ends. *first_s* is when
    the first score ever came, in epoch seconds: a span does not reach further back, so that the
    chart of a first day is not empty.
    """
    now_s = int(now.timestamp())
    texts = query.get("from", ""), query.get("to", "")
    first, last = map(_moment, texts)
    unread = [text for text, at in zip(texts, (first, last), strict=True) if text and at is None]
    wrong = f"Invalid time {unread[0]!r}: expected 2026-11-21 22:00" if unread else ""
    if first is not None:
        from_s, to_s = int(first.timestamp()), now_s if last is None else int(last.timestamp())
        if to_s <= from_s:
            wrong = wrong or "Invalid time range: expected an end after its start"
        # What reaches beyond now is moved back, as long as it is.
        beyond_s = max(0, to_s - now_s)
        from_s, to_s = max(from_s, to_s - _LONGEST_S) - beyond_s, to_s - beyond_s
        if to_s - from_s >= _LEAST_STEPS * bucket_s:
            return TimeRange(from_s=from_s, to_s=to_s, is_fixed=True, wrong=wrong)
        middle_s = min(now_s, (from_s + to_s) // 2 + _LEAST_STEPS * bucket_s // 2)
        return TimeRange(
            from_s=middle_s - _LEAST_STEPS * bucket_s,
            to_s=middle_s,
            is_fixed=from_s < to_s,
            wrong=wrong,
        )
    span = query.get("span", "")
    length_s = SPANS.get(span, usual_s)
    if first_s is not None:
        length_s = min(length_s, max(_FIRST_STEPS * bucket_s, now_s - first_s + bucket_s))
    return TimeRange.last(length_s, now, span if span in SPANS else "", wrong)


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
        found = found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    # Room for the arithmetic on both sides.
    near = datetime(2000, 1, 1, tzinfo=UTC) <= found <= datetime(2200, 1, 1, tzinfo=UTC)
    return found if near else None


def _text(at_s: int) -> str:
    at = datetime.fromtimestamp(0, UTC) + timedelta(seconds=at_s)
    return f"{at:%Y-%m-%dT%H:%M:%S}" if at.second else f"{at:%Y-%m-%dT%H:%M}"


def slug(name: str) -> str:
    """
    Return any name as one part of a path.

    Servers and browsers read ``%2F`` and ``..`` in paths as they like, so ``~`` stands
    for the percent sign, and a name of dots only is written out.

    Examples
    --------
    >>> slug("bots/eu 1"), slug("..")
    ('bots~2Feu~201', '~2E~2E')
    """
    quoted = quote(name, safe="").replace("~", "%7E")
    if not name.strip("."):
        quoted = quoted.replace(".", "%2E")
    return quoted.replace("%", "~")


def unslug(part: str) -> str:
    """Return the name that :func:`slug` wrote."""
    return unquote(part.replace("~", "%"), errors="replace")


def metric_path(app: str, metric: str) -> str:
    """Address of the page about one metric of one app."""
    return f"/app/{slug(app)}/{slug(metric)}"


def app_path(app: str) -> str:
    """Address of the page about one app."""
    return f"/app/{slug(app)}"


def sample_path(sample_id: str) -> str:
    """Address of the page about one sample."""
    return f"/sample/{slug(sample_id)}"


def releases_path(app: str, **wanted: str) -> str:
    """Address of the comparison of two releases of an app, `before` and `after` if named."""
    query = urlencode({name: value for name, value in wanted.items() if value})
    return f"/releases/{slug(app)}" + (f"?{query}" if query else "")


def incident_path(incident_id: str) -> str:
    """Address of the page about one incident."""
    return f"/incidents/{slug(incident_id)}"


def samples_path(sample_id: str = "", **wanted: object) -> str:
    """
    Address of the list of the samples that *wanted* names; of one of them, with its neighbours.

    Names are those of `monitor.store.sample_filter.SampleFilter`; what is empty is left out, and
    times may be epoch seconds.

    Examples
    --------
    >>> samples_path(app="shop", outcome="failed", segment=["language=fr"])
    '/samples?app=shop&outcome=failed&segment=language%3Dfr'
    """
    query = []
    for name, value in wanted.items():
        for item in value if isinstance(value, list | tuple) else [value]:
            if item in {None, ""}:
                continue
            if name in {"since", "until"} and isinstance(item, int | float):
                item = datetime.fromtimestamp(item, UTC)  # noqa: PLW2901
            query.append((name, item.isoformat() if isinstance(item, datetime) else str(item)))
    path = sample_path(sample_id) if sample_id else "/samples"
    return f"{path}?{urlencode(query)}" if query else path


# --- a pass rate over time, and what happened beside it ---


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """One step of a chart; ``rate``, ``low`` and ``high`` are None where nothing was scored."""

    start_s: int
    n: int = 0
    rate: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """
    Steps of equal width, without holes: a step without scores stands there, empty.

    It ends at *now_s*, epoch seconds: the last step may be unfinished.
    """

    step_s: int
    steps: tuple[SeriesPoint, ...]
    now_s: float = inf

    @property
    def from_s(self) -> int:
        """Where it begins, in epoch seconds."""
        return self.steps[0].start_s if self.steps else 0

    @property
    def to_s(self) -> int:
        """Where it ends, in epoch seconds."""
        # The second that has begun is in it, and what happened in it.
        return int(min(self.now_s + 1, self.steps[-1].start_s + self.step_s)) if self.steps else 0

    @property
    def finished_s(self) -> int:
        """Where its last finished step ends, in epoch seconds."""
        last_s = self.steps[-1].start_s if self.steps else 0
        return last_s if self.to_s < last_s + self.step_s else self.to_s

    @property
    def n(self) -> int:
        """How many scores it is based on."""
        return sum(step.n for step in self.steps)

    @property
    def gaps(self) -> int:
        """How many finished steps have no score."""
        return sum(step.rate is None and step.start_s < self.finished_s for step in self.steps)

    @property
    def first_scored_s(self) -> int | None:
        """Where the first step with a score begins, in epoch seconds; None without any score."""
        return next((step.start_s for step in self.steps if step.rate is not None), None)

    def fitted(self) -> TimeSeries:
        """Return it without the empty steps before the first score, but for a few."""
        if self.first_scored_s is None:
            return self
        empty = (self.first_scored_s - self.from_s) // self.step_s
        start = max(0, min(empty - 1, len(self.steps) - _LEAST_DRAWN))
        return replace(self, steps=self.steps[start:])


@dataclass(frozen=True, slots=True)
class ShadedSpan:
    """A time range with a level, in epoch seconds: an incident on a chart."""

    from_s: float
    to_s: float
    level: str


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A moment with a name: a release on a chart."""

    at_s: float
    label: str


def time_series(
    steps: Mapping[int, SeriesPoint], *, now_s: float, span_s: int, step_s: int
) -> TimeSeries:
    """Return steps by their start over the last *span_s* seconds; missing ones are gaps."""
    last = int(now_s) // step_s * step_s
    first = last - max(1, span_s // step_s) * step_s + step_s
    starts = range(first, last + 1, step_s)
    points = tuple(steps.get(start_s) or _gap(start_s) for start_s in starts)
    return TimeSeries(step_s, points, now_s)


_gap = lru_cache(maxsize=4096)(SeriesPoint)  # all series of a page have the same ones


def steps_of(tallies: Mapping[int, Tally]) -> dict[int, SeriesPoint]:
    """Return rates with bounds of the sums of steps, both keyed by their start in epoch seconds."""
    steps = {}
    for start_s, tally in tallies.items():
        found = window_stats(tally)
        low, high = found.interval or (None, None)
        steps[start_s] = SeriesPoint(start_s, tally.n, found.pass_rate, low, high)
    return steps


def spans_of(incidents: Sequence[Alert], now: datetime) -> list[ShadedSpan]:
    """Return incidents as shaded spans; an open one reaches to *now*."""
    return [
        ShadedSpan(i.since.timestamp(), (i.resolved_at or now).timestamp(), str(i.peak_level))
        for i in incidents
    ]


def strip(
    changes: Sequence[tuple[float, Status]], *, now_s: float, cells: int, cell_s: int
) -> tuple[Status | None, ...]:
    """
    Cut the past into cells of *cell_s* seconds, each the worst status in it.

    *changes* are when each status began, in epoch seconds, oldest first. Before the first one
    nothing is known, which is not the same as healthy: None.
    """
    end = (int(now_s) // cell_s + 1) * cell_s
    starts = range(end - cells * cell_s, end, cell_s)
    found: list[Status | None] = []
    status: Status | None = None
    place = 0
    for start in starts:
        while place < len(changes) and changes[place][0] <= start:
            status, place = changes[place][1], place + 1
        worst = status
        while place < len(changes) and changes[place][0] < min(start + cell_s, now_s):
            status, place = changes[place][1], place + 1
            worst = status if worst is None else min(worst, status, key=SEVERITY.index)
        found.append(worst)
    return tuple(found)
