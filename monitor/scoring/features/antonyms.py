"""Tell words that exclude each other in the same place: days, units, opposites, quantities."""

from __future__ import annotations

from enum import StrEnum

from monitor.scoring.features.polarity import OPPOSITES
from monitor.scoring.words import Word, stem


class Change(StrEnum):
    """What is exchanged where a claim is otherwise as its evidence says."""

    NUMBER = "number"
    YEAR = "year"
    DAY = "day"  #: a weekday or a month
    UNIT = "unit"
    NAME = "name"
    NEGATION = "negation"
    OPPOSITE = "opposite"
    QUANTITY = "quantity"  #: all for some, never for sometimes
    ROLES = "roles"  #: who does it to whom
    ATTRIBUTE = "attribute"  #: of a record


def _stems(listed: str) -> tuple[str, ...]:
    return tuple(stem(word) for word in listed.split())


_WEEK = _stems("monday tuesday wednesday thursday friday saturday sunday")
_YEAR = _stems(
    "january february march april may june july august september october november december"
)
_SHORT_DAYS = {day[:3]: day for day in _WEEK}
_SHORT_MONTHS = {month[:3]: month for month in _YEAR}
_DIMENSIONS = (
    "second minute hour day week month quarter year decade century",
    "mm cm metre meter km kilometre kilometer inch foot feet yard mile",
    "mg gram kg kilogram kilo tonne ton ounce pound lb",
    "bit byte kb mb gb tb kilobyte megabyte gigabyte terabyte",
    "dollar euro pound yen franc cent usd eur gbp chf",
    "percent dollar euro",
    "hundred thousand million billion trillion",
    "watt kilowatt megawatt volt amp ampere",
    "am pm",
    "celsius fahrenheit",
    "liter litre ml gallon pint",
)
_UNITS: dict[str, set[str]] = {}
for _listed in _DIMENSIONS:
    for _unit in _stems(_listed):
        _UNITS.setdefault(_unit, set()).update(set(_stems(_listed)) - {_unit})
_SAME_UNITS = (
    "metre meter", "kilometre kilometer km", "kg kilogram kilo", "dollar usd", "euro eur",
    "pound gbp lb", "franc chf", "gb gigabyte", "mb megabyte", "kb kilobyte", "tb terabyte",
    "liter litre", "amp ampere", "tonne ton", "foot feet",
)  # fmt: skip
for _listed in _SAME_UNITS:
    for _unit in _stems(_listed):
        _UNITS[_unit] -= set(_stems(_listed))
_MORE_OPPOSITES = (
    "weekday weekend", "warm cold", "wet dry", "on off", "with without", "indoor outdoor",
    "inbound outbound", "incoming outgoing", "encrypted plain", "mandatory optional",
    "required forbidden", "permitted forbidden", "allowed forbidden", "allowed prohibited",
    "full empty", "upper lower", "front back", "ascending descending", "import export",
    "permit prohibit", "increased decreased", "increased reduced", "rising falling", "rose fell",
    "upload download", "online offline", "encourage discourage", "earlier later",
    "beginning end", "open closed", "slower faster", "quiet loud", "heavy light",
    "refundable nonrefundable", "cheaper pricier", "buyer seller",
)  # fmt: skip
_OPPOSED: dict[str, set[str]] = {word: set(others) for word, others in OPPOSITES.items()}
for _pair in _MORE_OPPOSITES:
    _one, _other = _stems(_pair)
    _OPPOSED.setdefault(_one, set()).add(_other)
    _OPPOSED.setdefault(_other, set()).add(_one)
_DENYING = ("un", "in", "im", "non", "ir", "dis")
_SHORTEST_DENIED = 4
#: What the passage says, and what does not follow from it.
_BEYOND = {
    "some": "all every each none no always",
    "few": "all every many most",
    "many": "all every few none no",
    "most": "all every few none no",
    "all": "none no few",
    "both": "neither",
    "neither": "both",
    "sometimes": "always never",
    "often": "always never rarely seldom",
    "usually": "always never rarely seldom",
    "rarely": "always often usually never",
    "seldom": "always often usually never",
    "never": "always sometimes often usually",
    "always": "never rarely seldom",
    "may": "must",
    "can": "must",
}
_DOES_NOT_FOLLOW = {stem(word): frozenset(_stems(listed)) for word, listed in _BEYOND.items()}


def day_of(word: Word) -> tuple[int, str] | None:
    """Name the weekday (0) or month (1) that a capitalised word names, in full or in short."""
    if not word.surface[:1].isupper():
        return None
    full = word.stem
    for number, (known, short) in enumerate(((_WEEK, _SHORT_DAYS), (_YEAR, _SHORT_MONTHS))):
        if full in known:
            return number, full
        if full in short:
            return number, short[full]
    return None


def is_unit(word: str) -> bool:
    """Say whether a stem is a unit of measure."""
    return word in _UNITS


def exclusive(said: Word, told: Word) -> Change | None:
    """Name how *said* excludes what a passage has *told* in the same place."""
    day, other_day = day_of(said), day_of(told)
    if day and other_day:
        return Change.DAY if day[0] == other_day[0] and day != other_day else None
    if told.stem in _UNITS.get(said.stem, ()):
        return Change.UNIT
    if told.stem in _OPPOSED.get(said.stem, ()) or _denies(
        said.surface.lower(), told.surface.lower()
    ):
        return Change.OPPOSITE
    if said.stem in _DOES_NOT_FOLLOW.get(told.stem, ()):
        return Change.QUANTITY
    return None


def _denies(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(short) >= _SHORTEST_DENIED and any(long == ending + short for ending in _DENYING)
