"""A rate from cheap predictions of all samples and dear verdicts on some of them."""

from __future__ import annotations


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
