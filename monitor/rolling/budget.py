"""How much evidence an alarm needs, so that false ones keep to a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

_MONTH_S: Final = 30 * 86_400
_DAY_S: Final = 86_400
#: Part of a stream's budget that pays for alarms about a fall from its own reference.
FALL_SHARE: Final = 0.85
#: One stream never gets more than this part of the project's budget, however few there are.
_MOST_OF_PROJECT: Final = 0.1
#: Streams of segments together get this part, when there are any.
_SEGMENTS_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """
    What a stream is judged by.

    ``false_alarms_per_month`` is the budget of this one stream: the mean number of false alarms
    in 30 days, above 0. Rates are in [0, 1]; ``bucket_s`` is the width of a bucket in seconds.
    ``use_reference`` switches the evidence of a fall from the stream's own reference.
    """

    warning_rate: float = 0.85
    critical_rate: float = 0.70
    min_n: int = 30
    bucket_s: int = 60
    false_alarms_per_month: float = 0.1
    use_reference: bool = True

    def log_threshold(self, share: float = 1.0) -> float:
        """Give the log evidence, counted in buckets, that *share* of the budget pays for."""
        return math.log(_MONTH_S / self.bucket_s / (self.false_alarms_per_month * share))

    @property
    def log_clear(self) -> float:
        """Give the log evidence of a recovery: a false one in a day, on average, at most."""
        return math.log(_DAY_S / self.bucket_s)


def stream_budget(
    false_alarms_per_month: float, *, roots: int, segments: int = 0, is_root: bool = True
) -> float:
    """
    Share a project's budget among its streams (weighted e-Bonferroni).

    Half is for segments when there are any; within each half all get the same, but no stream
    more than a tenth of the whole. The mean number of false alarms of all streams together
    keeps to the budget whatever the dependence between them, as means add up.

    Parameters
    ----------
    false_alarms_per_month
        Of the whole project in 30 days, above 0.
    roots, segments
        How many streams there are of each sort.
    is_root
        Of which sort this stream is.

    Returns
    -------
    float
        The stream's own false alarms in 30 days.

    References
    ----------
    .. [1] S. Dandapanthula, A. Ramdas, "Multiple testing in multi-stream sequential change
       detection" (2025), arXiv 2501.04130.

    Examples
    --------
    >>> stream_budget(1.0, roots=1000)
    0.001
    """
    part = 1.0 if not segments else (1.0 - _SEGMENTS_SHARE if is_root else _SEGMENTS_SHARE)
    weight = part / max(1, roots if is_root else segments)
    return false_alarms_per_month * min(_MOST_OF_PROJECT, weight)
