"""Step 4 of 7 · store: keep samples, evaluations and buckets where they can be asked for."""

from enum import StrEnum


class Sort(StrEnum):
    """The order of a list; scores are compared to the hundredth, the newest first within one."""

    NEWEST = "newest"
    OLDEST = "oldest"
    LOWEST = "lowest"
    HIGHEST = "highest"
