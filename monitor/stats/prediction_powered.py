"""A rate from cheap predictions of all samples and dear verdicts on some of them."""

from __future__ import annotations

import math

_BOUNDARY = 4.0  # samples, half of them passed, that stand in where no variance can be read


def difference_estimate(prediction: float, truth: float | None, probability: float) -> float:
    """
    Estimate what a dear judge would say of one sample, without bias.

    The prediction plus, where the judge was asked, the inverse-probability weighted
    difference to it. Its expectation over the decision to ask is the judge's own
    value, whatever the prediction; a good prediction only makes it vary less:
    its variance is (1 / probability - 1) (truth - prediction)^2.

    Valid when prediction and probability were fixed before the judge was asked, and
    the decision did not look at what the judge would say.

    Parameters
    ----------
    prediction
        What the judge is expected to say, from what is known of every sample.
    truth
        What the judge said; None where it was not asked.
    probability
        With which the judge was to be asked, in (0, 1].

    Returns
    -------
    float
        Not bounded: it may lie outside the range of *truth*.

    Raises
    ------
    ValueError
        If the judge was asked with a probability outside (0, 1].

    References
    ----------
    .. [1] C. M. Cassel, C. E. Särndal, J. H. Wretman, "Some results on generalized
       difference estimation and generalized regression estimation for finite
       populations", Biometrika 63 (1976), 615-620.
    .. [2] T. Zrnic, E. J. Candès, "Active statistical inference", ICML (2024).

    Examples
    --------
    >>> difference_estimate(0.75, None, 0.25)
    0.75
    >>> difference_estimate(0.75, 1.0, 0.25)
    1.75
    """
    if truth is None:
        return prediction
    if not 0 < probability <= 1:
        raise ValueError(f"the probability of asking is in (0, 1], not {probability}")
    return prediction + (truth - prediction) / probability


def answered_probability(probability: float, answered_share: float) -> float:
    """
    Return how probable a verdict is for a sample that has a score, in (0, 1].

    Of the samples a part `probability * (1 - answered_share)` fails and has none. If all of
    them are asked about, the verdict on each that is left is known.
    """
    answered = probability * answered_share
    return answered / (1 - probability + answered)


def ratio_variance(
    n: int, sum_w: float, sum_w2: float, sum_w2y: float, sum_w2yy: float, rate: float
) -> float:
    """
    Estimate the variance of a weighted mean (Hájek) of independent samples, from sums.

    Linearised: sum of w^2 (y - rate)^2 over (sum of w)^2, with n / (n - 1). Right for
    many samples; with few, or with a weight far above the others, too small. Takes y
    as it is, so that for estimates of y it holds sampling and asking together.

    Parameters
    ----------
    n
        Samples, at least 1.
    sum_w, sum_w2, sum_w2y, sum_w2yy
        Sums of w, w^2, w^2 y and w^2 y^2, with w > 0.
    rate
        The mean itself, sum of w y over sum of w.

    Returns
    -------
    float
        At least 0; infinite for a single sample.

    References
    ----------
    .. [1] C. E. Särndal, B. Swensson, J. Wretman, "Model Assisted Survey Sampling",
       Springer (1992), section 5.7.

    Examples
    --------
    >>> ratio_variance(4, 4.0, 4.0, 2.0, 2.0, 0.5)
    0.08333333333333333
    """
    if n == 1:
        return math.inf
    squares = _squares(sum_w2, sum_w2y, sum_w2yy, rate)
    return squares / (sum_w * sum_w) * n / (n - 1)


def effective_size(
    n: int, sum_w: float, sum_w2: float, sum_w2y: float, sum_w2yy: float, rate: float
) -> float:
    """
    Tell how many plain passes and failures know as much about a rate as these samples.

    The size m at which rate (1 - rate) / m is the variance found, without n / (n - 1)
    on either side, so that m is n where all weights are equal and every y is 0 or 1.
    Where the rate is at or beyond 0 or 1, the size of Kish stands in; and if y still
    varies there, as estimates do, no more than the variance says at a rate drawn two
    passes and two failures towards the middle.

    Never above n: a wrong but confident size would be worse than a wide interval.

    Parameters
    ----------
    n, sum_w, sum_w2, sum_w2y, sum_w2yy, rate
        As for `ratio_variance`.

    Returns
    -------
    float
        In (0, n].

    References
    ----------
    .. [1] L. Kish, "Survey Sampling", Wiley (1965), sections 8.2 and 11.7.
    .. [2] A. Agresti, B. A. Coull, "Approximate is better than exact for interval
       estimation of binomial proportions", American Statistician 52 (1998), 119-126.

    Examples
    --------
    >>> effective_size(4, 4.0, 4.0, 2.0, 2.0, 0.5)
    4.0
    """
    kish = min(float(n), sum_w * sum_w / sum_w2)
    variance = _squares(sum_w2, sum_w2y, sum_w2yy, rate) / (sum_w * sum_w)
    if 0 < rate < 1:
        return min(float(n), rate * (1 - rate) / variance) if variance > 0 else kish
    # Sums of equal numbers differ by rounding alone.
    if variance <= 1e-12 * sum_w2 / (sum_w * sum_w):
        return kish
    bounded = min(1.0, max(0.0, rate))
    drawn = (bounded * kish + _BOUNDARY / 2) / (kish + _BOUNDARY)
    return min(kish, drawn * (1 - drawn) / variance)


def _squares(sum_w2: float, sum_w2y: float, sum_w2yy: float, rate: float) -> float:
    return max(0.0, sum_w2yy - 2 * rate * sum_w2y + rate * rate * sum_w2)
