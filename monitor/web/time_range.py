"""A time range as an address holds it: the last N seconds, or from one time to another; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import quote, unquote, urlencode

#: Spans that the pages offer.
SPANS: Mapping[str, int] = {
    "15m": 900, "1h": 3600, "6h": 21_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000,
}  # fmt: skip
_STEPS = 96
_LEAST_STEPS, _FIRST_STEPS = 8, 16
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

    @classmethod
    def last(cls, length_s: int, now: datetime, span: str = "") -> TimeRange:
        """Return the last *length_s* seconds."""
        now_s = int(now.timestamp())
        return cls(from_s=now_s - length_s, to_s=now_s, span=span)

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

    The query has a ``span``, one of :data:`SPANS`; or ``from`` and ``to``, ISO 8601, in UTC unless
    they say otherwise, or ``to`` left out for *now*, after which nothing ends. *first_s* is when
    the first score ever came, in epoch seconds: a span does not reach further back, so that the
    chart of a first day is not empty.
    """
    now_s = int(now.timestamp())
    first, last = _moment(query.get("from", "")), _moment(query.get("to", ""))
    if first is not None:
        from_s, to_s = int(first.timestamp()), now_s if last is None else int(last.timestamp())
        # What reaches beyond now is moved back, as long as it is.
        beyond_s = max(0, to_s - now_s)
        from_s, to_s = max(from_s, to_s - _LONGEST_S) - beyond_s, to_s - beyond_s
        if to_s - from_s >= _LEAST_STEPS * bucket_s:
            return TimeRange(from_s=from_s, to_s=to_s, is_fixed=True)
        middle_s = min(now_s, (from_s + to_s) // 2 + _LEAST_STEPS * bucket_s // 2)
        return TimeRange(
            from_s=middle_s - _LEAST_STEPS * bucket_s, to_s=middle_s, is_fixed=from_s < to_s
        )
    span = query.get("span", "")
    length_s = SPANS.get(span, usual_s)
    if first_s is not None:
        length_s = min(length_s, max(_FIRST_STEPS * bucket_s, now_s - first_s + bucket_s))
    return TimeRange.last(length_s, now, span if span in SPANS else "")


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

    Names are those of `monitor.store.search.SampleFilter`; what is empty is left out, and times
    may be epoch seconds.

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
