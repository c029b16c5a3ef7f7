"""Whether there is room in Redis: by the number of samples that wait, and by their size."""

from __future__ import annotations

from dataclasses import dataclass

#: A full queue opens again below this share of its limits.
REOPEN = 0.9
_MEGABYTE = 1_000_000
#: Weight of the newest batch in the mean size of a sample.
_FRESH = 0.2


@dataclass(slots=True)
class QueueRoom:
    """
    Watches the two limits of the queue.

    Redis that is full takes nothing any more, not even what would empty it. So the
    size of what waits is estimated, as samples that wait times the mean size of ours,
    and kept well below the memory of the server.
    """

    limit: int
    limit_megabytes: int
    full: bool = False
    mean_bytes: float = 0.0

    def sent(self, samples: int, size_bytes: int) -> None:
        """Learn from a batch how large a sample is."""
        if samples:
            mean = size_bytes / samples
            old = self.mean_bytes or mean
            self.mean_bytes = old + _FRESH * (mean - old)

    def look(self, waiting: int) -> bool:
        """Tell whether the queue is full now that so many samples wait."""
        share = max(
            waiting / self.limit, waiting * self.mean_bytes / (self.limit_megabytes * _MEGABYTE)
        )
        self.full = share >= 1 or (self.full and share >= REOPEN)
        return self.full
