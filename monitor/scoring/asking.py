"""With which probability the judge is asked about a sample, and whether it is."""

from __future__ import annotations

import hashlib
import math
import threading

_FLOOR = 0.1  # of the share: asked everywhere, however certain the local score looks
_FIRST_SPREAD = 0.35  # about what undecided samples have on average
_STEP = 0.02
_SMALLEST = 1e-3  # below it a single verdict would weigh more than a window


class Asking:
    """
    Probabilities that follow the spread and average to a share; for threads.

    For a given number of calls the variance of the estimate is least when they are
    in proportion to the standard deviation of what the judge may say (Neyman). The
    scale follows what was asked before, so it is known before each sample is looked
    at; a floor everywhere keeps a prediction that is wrongly certain from hiding
    anything for ever.

    References
    ----------
    .. [1] J. Neyman, "On the two different aspects of the representative method",
       Journal of the Royal Statistical Society 97 (1934), 558-625.
    .. [2] T. Zrnic, E. J. Candès, "Active statistical inference", ICML (2024).
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._log_scale = math.log(share / _FIRST_SPREAD)
        self._lock = threading.Lock()

    def probability(self, spread: float, *, factor: float = 1.0) -> float:
        """
        Give the probability for a sample whose pass has the standard deviation *spread*.

        Parameters
        ----------
        spread
            In [0, 0.5].
        factor
            In [0, 1]: the part of the share that the budget leaves.

        Returns
        -------
        float
            In (0, 1].
        """
        if self._share >= 1:
            return max(factor, _SMALLEST)
        with self._lock:
            wanted = min(1.0, max(_FLOOR * self._share, math.exp(self._log_scale) * spread))
            self._log_scale += _STEP * (self._share - wanted) / self._share
            # Where all that is undecided is asked already, no scale brings more.
            self._log_scale = min(max(self._log_scale, -10.0), 5.0)
        return max(wanted * factor, _SMALLEST)


class Answering:
    """The share of questions that come back answered; for threads."""

    def __init__(self) -> None:
        self._share = 1.0
        self._lock = threading.Lock()

    @property
    def share(self) -> float:
        """The share so far, in [0.1, 1], the last fifty questions counting most."""
        return max(0.1, self._share)

    def note(self, *, answered: bool) -> None:
        """Count one question."""
        with self._lock:
            self._share += _STEP * (answered - self._share)


def draw(key: str) -> float:
    """Draw a number in [0, 1) for a sample, the same whenever and wherever it is scored."""
    digest = hashlib.sha256(b"groundwatch cascade\0" + key.encode(errors="replace")).digest()
    return int.from_bytes(digest[:7], "big") / 2**56
