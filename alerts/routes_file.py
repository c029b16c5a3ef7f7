"""The routes file: channels, routes, labels and maintenance windows, checked all at once."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from alerts.channels.base import Channel
from alerts.channels.declared import DeclaredChannel, one_or_more
from alerts.conditions import RULE_SETS, Figure, ThresholdRule
from alerts.routing import (
    BUILT_IN,
    Hours,
    Maintenance,
    Matcher,
    Route,
    RoutingConfig,
    parse_all,
)
from monitor.errors import GroundwatchError, SettingsError, own_words
from monitor.models.alerting import Severity
from monitor.settings import variable
from monitor.settings.kinds import parse_seconds

Loc = tuple[int | str, ...]
_NO_DEFAULT = (
    "the last route must take everything, so that nothing goes nowhere:"
    " no match, no active_hours, no min_severity"
)
_HEADER = re.compile(r"\s*\[")


#: A number of seconds, or a duration such as 30s, 1.5m or 1h.
_Seconds = Annotated[
    float,
    BeforeValidator(lambda given: parse_seconds(given) if isinstance(given, str) else given),
]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Hours(_Table):
    begin: str = Field(alias="from")
    end: str = Field(alias="to")
    timezone: str | None = None
    days: str | list[str] = ""


class _Route(_Table):
    name: str = ""
    match: Annotated[list[str], BeforeValidator(one_or_more)] = Field(default_factory=list)
    channels: Annotated[list[str], BeforeValidator(one_or_more), Field(min_length=1)]
    min_severity: Severity = Severity.WARNING
    active_hours: _Hours | None = None
    fallback: str | None = None
    goes_on: bool = Field(False, alias="continue")


class _Maintenance(_Hours):
    name: str = Field(min_length=1, max_length=50)
    match: Annotated[list[str], BeforeValidator(one_or_more), Field(min_length=1)]


class _Rule(_Table):
    use: str | None = None
    name: str = Field("", pattern=r"^[\w.-]{0,60}$")
    metric: str = "*"
    of: Figure = "average_score"
    below: Annotated[float, Field(ge=0, le=1)] | None = None
    above: Annotated[float, Field(ge=0, le=1)] | None = None
    for_s: Annotated[_Seconds, Field(ge=0)] = Field(0.0, alias="for")
    severity: Severity = Field(
        Severity.CRITICAL, validation_alias=AliasChoices("severity", "level")
    )
    min_n: int = Field(30, ge=1)

    @model_validator(mode="after")
    def _has_one_threshold(self) -> Self:
        if self.use is not None:
            if self.use not in RULE_SETS:
                raise ValueError(f"no set of rules {self.use!r}; there is: {', '.join(RULE_SETS)}")
        elif not self.name or (self.below is None) == (self.above is None):
            raise ValueError("a rule needs a name, and either below or above; or use = a set")
        return self

    def rules(self) -> Sequence[ThresholdRule]:
        """Return the rules that the table means."""
        if self.use is not None:
            return RULE_SETS[self.use]
        return [ThresholdRule(**self.model_dump(exclude={"use"}))]


class _Defaults(_Table):
    timezone: str = "UTC"
    group_wait: Annotated[_Seconds, Field(ge=0, le=3600)] = 0.0


class _Document(_Table):
    defaults: _Defaults = Field(default_factory=_Defaults)
    channels: dict[str, DeclaredChannel] = Field(default_factory=dict)
    routes: list[_Route] = Field(min_length=1)
    maintenance: list[_Maintenance] = Field(default_factory=list)
    labels: dict[str, dict[str, str]] = Field(default_factory=dict)
    rules: list[_Rule] = Field(default_factory=list)


def read_routes_file(
    path: Path,
    others: Mapping[str, Channel],
    timeout_s: float,
    *,
    scored: Callable[[], Collection[str]] | None = None,
) -> tuple[dict[str, Channel], RoutingConfig]:
    """
    Read the routes file: the channels by name, and who is notified of what through them.

    Parameters
    ----------
    path
        Where it is.
    others
        The channels that the settings make.
    timeout_s
        The time limit of each channel.
    scored
        Returns the metrics that are scored; rules must be about these. None: anything goes.

    Raises
    ------
    SettingsError
        With one line for each mistake: the file's name, the line, and what to do.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        raise SettingsError(f"GROUNDWATCH_ALERTS_FILE: cannot read {path}") from None
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: this is not TOML: {error}") from None
    mistakes: list[tuple[Loc, str]]
    try:
        reading = _Reading(_Document.model_validate(raw), others, timeout_s, scored)
        wiring = reading.wiring()
        mistakes = reading.mistakes
    except ValidationError as error:
        mistakes = [(tuple(e["loc"]), own_words(e["msg"])) for e in error.errors()]
    if not mistakes:
        return wiring
    placed = []
    for loc, message in mistakes:
        # As people say it: the first route is routes[1].
        name = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in loc)
        placed.append((line_of(text, loc), name.removeprefix("."), message))
    raise SettingsError(
        "\n".join(
            f"{path.name}:{line}: {name}: {message}" for line, name, message in sorted(placed)
        )
    )


class _Reading:
    """Turns the document into what it means, and collects all that is wrong with it."""

    def __init__(
        self,
        document: _Document,
        others: Mapping[str, Channel],
        timeout_s: float,
        scored: Callable[[], Collection[str]] | None,
    ) -> None:
        self.document = document
        self.mistakes: list[tuple[Loc, str]] = []
        self._others = others
        self._timeout_s = timeout_s
        self._scored = scored

    def wiring(self) -> tuple[dict[str, Channel], RoutingConfig]:
        """Return the channels and the routing that the document means."""
        channels = dict(self._others)
        for name, declared_channel in self.document.channels.items():
            at: Loc = ("channels", name)
            if name in self._others:
                self.mistakes.append((at, f"the settings make a channel {name!r} already"))
            try:
                channel = declared_channel.make(name, self._timeout_s)
            except GroundwatchError as error:
                self.mistakes.append((at, str(error)))
            else:
                channels[name] = channel
        names = self._others.keys() | self.document.channels.keys()
        routes = [self._route(i, spec, names) for i, spec in enumerate(self.document.routes)]
        if not routes[-1].is_default:
            self.mistakes.append((("routes", len(routes) - 1), _NO_DEFAULT))
        maintenance = []
        for place, spec in enumerate(self.document.maintenance):
            hours = self._hours(("maintenance", place), spec)
            matchers = self._matchers(("maintenance", place, "match"), spec.match)
            if hours is not None:
                maintenance.append(Maintenance(name=spec.name, matchers=matchers, hours=hours))
        plan = RoutingConfig(
            routes=routes,
            addresses={name: channel.addresses for name, channel in channels.items()},
            maintenance=tuple(maintenance),
            app_labels=self.document.labels,
            group_wait_s=self.document.defaults.group_wait,
            rules=tuple(self._rules()),
        )
        return channels, plan

    def _rules(self) -> Iterator[ThresholdRule]:
        names: set[str] = set()
        scored = self._scored() if self._scored is not None and self.document.rules else None
        for place, spec in enumerate(self.document.rules):
            for rule in spec.rules():
                if rule.name in names:
                    mistake = f"there is a rule {rule.name!r} already"
                    self.mistakes.append((("rules", place, "name"), mistake))
                names.add(rule.name)
                if scored is not None and rule.metric not in {"*", *scored}:
                    # Imported only for mistakes: it takes as long as everything else.
                    from monitor.scoring.metrics import METRICS  # noqa: PLC0415

                    close = difflib.get_close_matches(rule.metric, {*METRICS, *scored}, n=1)
                    hint = f"did you mean {close[0]!r}?" if close else ""
                    hint = hint or f"scored: {', '.join(sorted(scored))}"
                    said = f"there is no metric {rule.metric!r}; {hint}"
                    if rule.metric in METRICS:
                        said = f"the metric {rule.metric!r} is not scored; add it to"
                        said += f" {variable('metrics')}"
                    where = "use" if spec.use else "metric"
                    self.mistakes.append((("rules", place, where), f"rule {rule.name!r}: {said}"))
                yield rule

    def _route(self, place: int, spec: _Route, names: Collection[str]) -> Route:
        at: Loc = ("routes", place)
        for key, given in (("channels", spec.channels), ("fallback", [spec.fallback])):
            for name in given:
                if name is not None and name not in names:
                    close = difflib.get_close_matches(name, names, n=1)
                    hint = f"did you mean {close[0]!r}?" if close else ""
                    hint = hint or f"there is: {', '.join(sorted(names)) or 'none'}"
                    mistake = f"there is no channel {name!r}; {hint}"
                    self.mistakes.append(((*at, key), mistake))
        return Route(
            name=spec.name or f"route {place + 1}",
            channels=tuple(spec.channels),
            matchers=self._matchers((*at, "match"), spec.match),
            min_severity=spec.min_severity,
            active_hours=self._hours((*at, "active_hours"), spec.active_hours),
            fallback=spec.fallback,
            goes_on=spec.goes_on,
        )

    def _matchers(self, at: Loc, texts: list[str]) -> tuple[Matcher, ...]:
        try:
            matchers = parse_all(texts)
        except SettingsError as error:
            self.mistakes.append((at, str(error)))
            return ()
        known = {*BUILT_IN, *(name for labels in self.document.labels.values() for name in labels)}
        for matcher in matchers:
            if matcher.name not in known:
                there = ", ".join(sorted(known))
                mistake = f"no alert has a label {matcher.name!r}; there is: {there}"
                self.mistakes.append((at, mistake))
        return matchers

    def _hours(self, at: Loc, spec: _Hours | None) -> Hours | None:
        if spec is None:
            return None
        zone = spec.timezone or self.document.defaults.timezone
        try:
            return Hours.parse(spec.begin, spec.end, zone, spec.days)
        except SettingsError as error:
            self.mistakes.append((at, str(error)))
            return None


def line_of(text: str, loc: Loc) -> int:
    """Find the line of a place in a TOML document: its key, else its table, else the first."""
    lines = text.splitlines()
    table, second = re.escape(str(loc[0])), loc[1] if len(loc) > 1 else None
    headers, place = [rf"\s*\[\s*{table}\s*\]"], 0
    if isinstance(second, int):
        headers, place = [rf"\s*\[\[\s*{table}\s*\]\]"], second
    elif second is not None:
        headers.insert(0, rf'\s*\[\s*{table}\s*\.\s*"?{re.escape(second)}"?\s*\]')
    for header in headers:
        places = [n for n, line in enumerate(lines) if re.match(header, line)]
        if place < len(places):
            begin = places[place]
            break
    else:
        return 1
    keys = [str(part) for part in loc[1:] if isinstance(part, str)]
    found = begin
    for number in range(begin + 1, len(lines)):
        if _HEADER.match(lines[number]):
            break
        if any(re.match(rf'\s*"?{re.escape(key)}"?\s*=', lines[number]) for key in keys):
            found = number
    return found + 1
