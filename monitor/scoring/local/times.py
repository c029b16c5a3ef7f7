"""Write times of day in one form, and the months of dates in letters."""

from __future__ import annotations

import re

from monitor.scoring.language import ENGLISH, language

# Begins with a class of characters, for which the engine scans quickly.
_TIME = re.compile(
    r"([0-9](?<![\d:].)\d?)(?:(?::(\d{1,2}))?\s?(?:([ap])\.?m\b\.?|o'clock)|:(\d{1,2})(?![\d:]))",
    re.IGNORECASE,
)
_MAY_BE_TIME = re.compile(
    r"[0-9](?<![\d:].)\d?(?=:\d|\s?(?:[apAP]\.?[mM]|[oO]'|h\b|h\d|Uhr)|.\d\d Uhr)"
)  # fast
#: "10 Uhr 30", "8 bis 18 Uhr", "10 h 30", "à 10 h", "de 10 h à 18 h"; "3 h" is a duration.
_CLOCK = re.compile(
    r"[0-9](?<![\d:.,].)\d?(?:(?:[.:]\d\d)?"
    r"(?=(?:\s?(?:[–-]|bis|und)\s?[\d.:]{1,5})?\s?Uhr\b)(?:\s?Uhr\b(?:\s\d\d\b)?)?"
    r"|(?:\s?h\s?\d\d|(?:(?<=\b[àÀ] \d)|(?<=\b[àÀ] \d\d)|(?<=\bdès \d)|(?<=\bdès \d\d))\s?h)\b"
    r"|(?:(?<=\b[dD]e [6-9])|(?<=\b[dD]e 1\d))\s?h(?=\s?à \d{1,2}\s?h\b))"
)
_NAMED_TIME = re.compile(r"[nmNM](?<![:\w].)(?i:(?<=n)oon|(?<=m)id(?:day|night))\b")  # fast
#: "5:30-9 p.m.", "11 to 2 pm": the first time has no half of the day of its own.
_FROM_TIME = re.compile(
    r"([0-9](?<![\d:].)\d?)((?::\d{2})?)(?=\s?(?:[–-]|to)\s?(\d{1,2})(?::\d{2})?\s?([ap])\.?m\b)",
    re.IGNORECASE,
)
_MAY_BE_DATE = re.compile(r"[-.][01]\d[-.]")  # fast
_DOTTED_DATE = re.compile(r"([0-3](?<![\d.].)\d)\.(0[1-9]|1[0-2])\.([12]\d{3})(?!\d)")
_ISO_DATE = re.compile(r"([12](?<!\d.)\d{3})-(0[1-9]|1[0-2])-([0-3]\d)(?!\d)")
_MONTHS = {name: each.split() for name, each in language()["months"].items()}


def plain_times(text: str, in_language: str = ENGLISH, *, as_number: bool = False) -> str:
    """
    Return *text* with its times of day in one form, and the month of a date in letters.

    8 PM and 20:0 are 20:00, 2024-08-05 and 05.08.2024 are August 05 2024, in the words of
    *in_language*; with the month *as_number* as well.
    """
    if _MAY_BE_TIME.search(text):
        if in_language != ENGLISH or "Uhr" in text:
            text = _CLOCK.sub(_clock_time, text)
        text = _TIME.sub(_plain_time, _FROM_TIME.sub(_with_half, text))
    if (months := _MONTHS.get(in_language)) and _MAY_BE_DATE.search(text):
        text = _DOTTED_DATE.sub(r"\3-\2-\1", text)
        number = r"\2 " if as_number else ""
        text = _ISO_DATE.sub(lambda m: m.expand(rf"{number}{months[int(m[2]) - 1]} \3 \1"), text)
    if "oon" in text or "idday" in text or "idnight" in text:
        return _NAMED_TIME.sub(lambda m: "0:00" if m[0].lower() == "midnight" else "12:00", text)
    return text


def _with_half(match: re.Match[str]) -> str:
    """Return the first time of a range with the half of the day that the second one implies."""
    hour, half = int(match[1]), match[4].lower()
    if hour > 12:  # noqa: PLR2004 - written in 24 hours
        return match[0]
    turns = hour % 12 > int(match[3]) % 12
    return f"{match[0]} {'pa'['ap'.index(half)] if turns else half}m"


def _clock_time(match: re.Match[str]) -> str:
    """Return a German or French time of day with hours and minutes."""
    hour, minute = (*re.findall(r"\d+", match[0]), "00")[:2]
    is_time = int(hour) <= 24 and int(minute) < 60  # noqa: PLR2004 - as in a day and an hour
    return f"{hour}:{minute}" if is_time else match[0]


def _plain_time(match: re.Match[str]) -> str:
    """Return a time of day as hours and minutes of 24 hours; what is none as it is written."""
    hour, minute = int(match[1]), int(match[2] or match[4] or 0)
    if hour > 24 or minute > 59:  # noqa: PLR2004 - no time of day
        return match[0]
    if half := match[3]:
        hour = hour % 12 + (12 if half in "pP" else 0)
    return f"{hour}:{minute:02}"
