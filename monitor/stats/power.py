"""What evidence costs: how many samples a fall of a given size needs, and what is out of sight."""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import rel_entr

_TINY = 1e-9


def bernoulli_kl(q: float, m: float) -> float:
    """
    Give the information, in nats a sample, that tells pass rate *q* from *m*; both in [0, 1].

    Infinite when *m* is 0 or 1 and *q* is not.

    References
    ----------
    .. [1] S. Kullback, R. A. Leibler, "On information and sufficiency", Annals of Mathematical
       Statistics 22 (1951), 79-86.
    """
    return float(rel_entr(q, m) + rel_entr(1.0 - q, 1.0 - m))


def resolution(n: float, line: float, log_threshold: float) -> float:
    """
    Tell the highest pass rate that *n* samples can tell from *line*.

    Parameters
    ----------
    n
        Samples, at least 0.
    line
        In (0, 1).
    log_threshold
        Log evidence at which an alarm is raised, above 0.

    Returns
    -------
    float
        In [0, line]; 0 when not even a total failure would be seen.
    """
    if n <= 0 or n * bernoulli_kl(0.0, line) <= log_threshold:
        return 0.0
    return float(
        brentq(lambda q: n * bernoulli_kl(q, line) - log_threshold, 0.0, line - _TINY * line)
        if n * bernoulli_kl(line - _TINY * line, line) < log_threshold
        else line
    )


def samples_to_decide(rate: float, line: float, log_missing: float) -> int | None:
    """
    Estimate how many more samples decide whether *rate* lies below *line*.

    Parameters
    ----------
    rate
        Pass rate that is supposed to go on, in [0, 1].
    line
        In (0, 1).
    log_missing
        Log evidence that is missing.

    Returns
    -------
    int or None
        None when the rate is not below the line, so that no number would do.
    """
    if log_missing <= 0:
        return 0
    gain = bernoulli_kl(rate, line) if rate < line else 0.0
    return math.ceil(log_missing / gain) if gain > _TINY else None


def lorden_delay(line: float, rate: float, samples_to_false_alarm: float) -> float:
    """
    Bound from below the mean delay of any detector, in samples, to first order.

    No rule whose mean number of samples to a false alarm is *samples_to_false_alarm* at pass
    rate *line* finds a fall to *rate* with a smaller worst mean delay, as the former grows.

    References
    ----------
    .. [1] G. Lorden, "Procedures for reacting to a change in distribution", Annals of
       Mathematical Statistics 42 (1971), 1897-1908.
    """
    return math.log(samples_to_false_alarm) / bernoulli_kl(rate, line)
