"""
What a sample adds to the sums, and the figures that people read from sums.

`tally_of` counts an evaluation, `fingerprint` what was asked; `window_stats` reads a window.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.models import ROOT, Drift, Evaluation, EvaluationStatus, Interaction, StreamKey, Tally
from monitor.models.evaluation import PassRule
from monitor.models.insight import CategoryFigures, Figures, HistogramBin, Trend
from monitor.models.status import BINS, WINDOW_WEIGHT, Movement, score_bin
from monitor.stats.distance import Histogram, kolmogorov_smirnov, population_stability_index
from monitor.stats.intervals import Interval, effective_size, newcombe_interval, wilson_interval
from monitor.stats.multiplicity import benjamini_hochberg
from monitor.stats.summary import normal_interval, robust_trend, summarise_bins

_MICRO = 1_000_000
#: Every interval of a pass rate that is shown is one of 90 %.
DOUBT: Final = 0.10

QUERY_CHARS: Final = "query_chars"
OUTPUT_CHARS: Final = "output_chars"
CONTEXTS: Final = "contexts"
LANGUAGE: Final = "language"
TOPIC: Final = "topic"
#: How many queries the sketch was made of; one query falls into several groups.
QUERIES: Final = "queries"
FEATURES: Final = (QUERY_CHARS, OUTPUT_CHARS, CONTEXTS, LANGUAGE, TOPIC)
TOPIC_GROUPS: Final = 128

_MOST_CONTEXTS = 20
_MOST_CHARS = 4000
_LONGEST_KEPT = 40  # characters of a word whose group is kept
#: Two bins a doubling: 1, 2, 3, 4, 6, 8, 11, 16, ...
_BINS_PER_DOUBLING = 2
_WORD = re.compile(r"[^\W\d_]{3,}")

#: Languages by their position, which is their bin; never change the order.
LANGUAGES: Final = (
    "unknown", "en", "de", "fr", "es", "it", "pt", "nl", "latin", "cyrillic", "greek", "arabic",
    "hebrew", "devanagari", "thai", "han", "kana", "hangul",
)  # fmt: skip
_COMMON_WORDS: Mapping[str, str] = {
    "en": "the and is are what how do does can my you it for of to i in on with",
    "de": "der die das und ist wie was ich ein eine nicht mein für mit sie kann",
    "fr": "le la les et est une des que je vous mon ma pour dans comment pas",
    "es": "el los las y es una que mi por para con como cómo qué se puedo no",
    "it": "il gli e è una che mi per con come di sono non posso mio della",
    "pt": "o os as e é uma que meu para com como não você posso do da em",
    "nl": "de het een en is van wat hoe ik mijn niet voor met kan op je",
}
_LANGUAGES_OF: Mapping[str, Sequence[str]] = {
    word: [name for name, words in _COMMON_WORDS.items() if word in words.split()]
    for word in " ".join(_COMMON_WORDS.values()).split()
}
_SCRIPTS: Mapping[str, str] = {
    "LATIN": "latin", "CYRILLIC": "cyrillic", "GREEK": "greek", "ARABIC": "arabic",
    "HEBREW": "hebrew", "DEVANAGARI": "devanagari", "THAI": "thai", "CJK": "han",
    "HIRAGANA": "kana", "KATAKANA": "kana", "HANGUL": "hangul",
}  # fmt: skip


def numeric_score(evaluation: Evaluation) -> float | None:
    """
    Return a completed evaluation's score as a number in [0, 1].

    A bool counts as 0 or 1. A category or a number on another scale has no place
    in a rate and gives None.
    """
    score = evaluation.score
    if evaluation.status is not EvaluationStatus.COMPLETED or isinstance(score, str | None):
        return None
    return float(score) if 0.0 <= float(score) <= 1.0 else None


def tally_of(evaluation: Evaluation, *, sample_rate: float, pass_score: float) -> Tally:
    """
    Return what one evaluation adds to its bucket.

    Only a completed one with a score in [0, 1] counts in ``n``; a completed one without is counted
    as failed, so that it is seen. *sample_rate* is the probability, in (0, 1], with which the
    interaction was sampled. A score at or above *pass_score* passes, unless the evaluation's
    criteria name a line and a direction of their own.

    Where a cascade made the evaluation, its metadata holds unbiased estimates of what
    the judge would have said, and these are what the weighted sums take; ``passed``
    and ``sum_x`` stay what was said, and the histogram holds local scores throughout,
    so that a changed share of judged samples is not drift.
    """
    cost = round((evaluation.cost_usd or 0.0) * _MICRO)
    if evaluation.status is EvaluationStatus.SKIPPED:
        return Tally(skipped=1, cost_microusd=cost)
    score = numeric_score(evaluation)
    if score is None:
        return Tally(failed=1, cost_microusd=cost)
    noted = evaluation.metadata or {}
    own = noted.get(WINDOW_WEIGHT)
    weight = (float(own) if isinstance(own, int) and own > 0 else 1.0) / sample_rate
    rule = PassRule.of(evaluation, pass_score)
    passed = rule.passes(score)
    y, x, local, judged = float(passed), score, score, False
    if "pass_estimate" in noted:
        y, x = float(noted["pass_estimate"]), float(noted["score_estimate"])
        local = min(1.0, max(0.0, float(noted["local_score"])))
        judged = bool(noted["judged"])
    return Tally(
        n=1,
        passed=int(passed),
        judged=int(judged),
        agreed=int(judged and rule.passes(local) == passed),
        sum_w=weight,
        sum_w2=weight * weight,
        sum_wy=weight * y,
        sum_w2y=weight * weight * y,
        sum_w2yy=weight * weight * y * y,
        sum_x=score,
        sum_x2=score * score,
        sum_wx=weight * x,
        sum_wxx=weight * x * x,
        cost_microusd=cost,
        histogram=Counter({score_bin(local): 1}),
    )


def stream_key(app: str, evaluation: Evaluation, *, pass_score: float) -> StreamKey:
    """
    Return the stream of a whole app to which an evaluation belongs.

    What passes is a part of the version: a new pass score must not look like a new
    quality either.
    """
    rule = PassRule.of(evaluation, pass_score)
    version = f"{evaluation.evaluator_version or 'unversioned'} {rule}"
    return StreamKey(app, evaluation.evaluator_name, ROOT, version)


def bucket_start(epoch_s: float, width_s: int) -> int:
    """Return the start, in epoch seconds, of the bucket that holds *epoch_s*."""
    return int(epoch_s // width_s) * width_s


def fingerprint(interaction: Interaction) -> dict[str, dict[int, int]]:
    """
    Count one interaction: by feature, so many in each bin.

    Texts that were not captured have no length, no language and no topic.
    """
    found = {CONTEXTS: {min(len(interaction.contexts), _MOST_CONTEXTS): 1}}
    if interaction.output:
        found[OUTPUT_CHARS] = {length_bin(len(interaction.output)): 1}
    if interaction.query:
        query = interaction.query[:_MOST_CHARS]
        found[QUERY_CHARS] = {length_bin(len(interaction.query)): 1}
        found[LANGUAGE] = {LANGUAGES.index(guess_language(query)): 1}
        found[TOPIC] = dict.fromkeys(sorted(topic_groups(query)), 1)
        found[QUERIES] = {0: 1}
    return found


def length_bin(chars: int) -> int:
    """Return the bin of a length: two bins for each doubling, 0 for nothing."""
    if chars <= 0:
        return 0
    # By whole numbers: the square tells in which half of its doubling a length lies.
    upper_half = int(chars * chars >= 1 << (2 * chars.bit_length() - 1))
    return min(60, _BINS_PER_DOUBLING * (chars.bit_length() - 1) + upper_half + 1)


def length_of_bin(position: int) -> int:
    """Return the least length that falls into a bin."""
    if position <= 0:
        return 0
    doublings, upper = divmod(position - 1, _BINS_PER_DOUBLING)
    return round(2 ** (doublings + upper / 2) + (0.5 if upper else 0))


def topic_groups(text: str) -> set[int]:
    """Return the groups into which the words of a text fall, each once: a set of 0 to 127."""
    found = set(_WORD.findall(text.casefold()))
    return {_kept_group(w) if len(w) <= _LONGEST_KEPT else _group(w) for w in found}


def guess_language(text: str) -> str:
    """Guess a language by its script and, for Latin letters, by its commonest words."""
    beginning = text[:400]
    if not beginning.isascii():  # else all letters are Latin
        scripts = Counter[str]()
        for character, n in Counter(beginning).items():
            if character.isalpha():
                name = unicodedata.name(character, "").split(" ")[0].split("-")[0]
                if script := _SCRIPTS.get(name):
                    scripts[script] += n
        if not scripts:
            return "unknown"
        script = "kana" if scripts["kana"] else scripts.most_common(1)[0][0]
        if script != "latin":
            return script
    elif not any(map(str.isalpha, beginning)):
        return "unknown"
    words = re.findall(r"[^\W\d_]+", text.casefold())
    hits = Counter(chain.from_iterable(filter(None, map(_LANGUAGES_OF.get, words))))
    most = max(hits.values(), default=0)
    first = [name for name, n in hits.items() if n == most]
    return first[0] if len(first) == 1 else "latin"


def _group(word: str) -> int:
    digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=4).digest()
    return int.from_bytes(digest, "big") % TOPIC_GROUPS


_kept_group = lru_cache(maxsize=10_000)(_group)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStats:
    """
    What a window says about the traffic behind it.

    ``pass_rate`` and ``average_score`` are weighted by the inverse sample rate
    (Hájek), so that a sample rate that changes within the window biases nothing, and
    are based on unbiased estimates where a judge was asked about some samples only.
    ``n_effective`` is what all that is worth in plain samples. The figures are None
    when nothing was scored. ``judged`` counts the samples that the judge of a cascade
    was asked about, ``agreed`` those on which the local score came to the same.
    """

    n: int
    passed: int
    failed: int
    skipped: int
    judged: int = 0
    agreed: int = 0
    n_effective: float = 0.0
    pass_rate: float | None = None
    interval: Interval | None = None
    average_score: float | None = None
    cost_usd: float = 0.0

    def counts(self, design_effect: float = 1.0) -> tuple[float, float]:
        """Return passes and scores as plain samples would be worth them; 0 of 0 for nothing."""
        n = self.n_effective / design_effect
        return (self.pass_rate or 0.0) * n, n


def window_stats(tally: Tally) -> WindowStats:
    """
    Turn the sums of a window into figures.

    The interval is Wilson's at `DOUBT`, at the size that the variance found is worth:
    right for one look at independent samples, too narrow for a judgement that is
    repeated every few seconds. For estimates it is an approximation that wants about
    thirty judged samples in the window.

    Sources: J. Hájek, comment in "Foundations of Statistical Inference" (1971), p. 236; A. N.
    Angelopoulos et al., "Prediction-powered inference", Science 382 (2023), 669-674.
    """
    names = ("n", "passed", "failed", "skipped", "judged", "agreed")
    counts: dict[str, Any] = {name: getattr(tally, name) for name in names}
    counts["cost_usd"] = tally.cost_microusd / _MICRO
    if tally.n == 0:
        return WindowStats(**counts)
    found = tally.sum_wy / tally.sum_w
    size = effective_size(tally.n, tally.sum_w, tally.sum_w2, tally.sum_w2y, tally.sum_w2yy, found)
    rate = min(1.0, max(0.0, found))
    return WindowStats(
        **counts,
        n_effective=size,
        pass_rate=rate,
        interval=wilson_interval(rate * size, size, alpha=DOUBT),
        average_score=min(1.0, max(0.0, tally.sum_wx / tally.sum_w)),
    )


class PassCounts(NamedTuple):
    """A stream's buckets: their starts, rising, passes and samples, each of shape (t,)."""

    start_s: NDArray[np.int64]
    passed: NDArray[np.float64]
    n: NDArray[np.float64]

    def within(self, from_s: int, to_s: int) -> PassCounts:
        """Return the buckets that start in [from_s, to_s)."""
        first, last = np.searchsorted(self.start_s, (from_s, to_s))
        return PassCounts(self.start_s[first:last], self.passed[first:last], self.n[first:last])


def pass_counts(rows: Sequence[Sequence[float]], *, design_effect: float = 1.0) -> PassCounts:
    """
    Return what each bucket is worth in passes of plain samples; empty buckets are left out.

    Rows are of a start, then n, sum_w, sum_w2, sum_wy, sum_w2y and sum_w2yy.
    """
    table = np.array(rows, dtype=np.float64).reshape(-1, 7)
    table = table[(table[:, 1] > 0) & (table[:, 2] > 0)]
    start_s, n, sum_w, sum_w2, sum_wy, sum_w2y, sum_w2yy = table.T
    rate = sum_wy / sum_w
    # Passes and failures of one weight are worth as many as they are: Cauchy's inequality is one.
    size, odd = n.copy(), (sum_w * sum_w != n * sum_w2) | (sum_w2y != sum_w2yy)
    weighted = np.column_stack([n, sum_w, sum_w2, sum_w2y, sum_w2yy, rate])[odd].tolist()
    size[odd] = [effective_size(*row) for row in weighted]
    size /= design_effect
    return PassCounts(start_s.astype(np.int64), np.clip(rate, 0.0, 1.0) * size, size)


def drift(reference: Tally, current: Tally, *, min_n: int) -> Drift | None:
    """
    Compare a window with the reference before it; None when either has under *min_n* scores.

    The distances are shown, not alerted on: they say how much moved, not whether
    that is more than chance.
    """
    if reference.n < min_n or current.n < min_n:
        return None
    before, now = window_stats(reference), histogram(current)
    return Drift(
        reference_pass_rate=before.pass_rate,
        reference_average_score=before.average_score,
        reference_n=before.n,
        psi=max(0.0, population_stability_index(histogram(reference), now)),
        ks=kolmogorov_smirnov(histogram(reference), now),
    )


def histogram(tally: Tally) -> Histogram:
    """Spread the sparse histogram of a tally over an array of shape (101,)."""
    counts = np.zeros(BINS)
    for position, count in tally.histogram.items():
        counts[position] = count
    return counts


def figures_of(tally: Tally, per_category: Mapping[str, Tally] | None = None) -> Figures | None:
    """
    Return the aggregate figures of a tally; None when nothing was scored.

    The mean and the pass rate are weighted by the inverse sample rates; median,
    percentile and histogram are of the scores as they were sampled, right to 0.005.
    """
    window = window_stats(tally)
    if window.pass_rate is None or window.average_score is None or not tally.histogram:
        return None
    _, _, median, std_dev, least, most, percentile_95, bins = summarise_bins(tally.histogram)
    passed, n = window.counts()
    return Figures(
        count=tally.n,
        mean=window.average_score,
        median=median,
        std_dev=std_dev,
        min=least,
        max=most,
        percentile_95=percentile_95,
        histogram=[HistogramBin(bin=name, count=count) for name, count in bins],
        pass_rate=window.pass_rate,
        wilson=wilson_interval(passed, n),
        normal=normal_interval(passed, n),
        per_category={
            name: CategoryFigures(
                count=part.n, mean=found.average_score or 0.0, pass_rate=found.pass_rate
            )
            for name, part in (per_category or {}).items()
            if (found := window_stats(part)).pass_rate is not None
        },
    )


def trend_of(steps: Mapping[int, Tally]) -> Trend | None:
    """Return the trend of a course: tallies by the start of their step, in epoch seconds."""
    points: list[tuple[float, float, float]] = []
    for start_s, tally in sorted(steps.items()):
        window = window_stats(tally)
        if window.pass_rate is not None:
            points.append((start_s / 86_400, *window.counts()))
    found = robust_trend(*zip(*points, strict=True)) if points else None
    return None if found is None else Trend.model_validate(found._asdict())


#: The share of those called certain that may be chance.
FALSE_SHARE: Final = 0.05


class Pair(NamedTuple):
    """The sums of one stream in two stretches of time."""

    app: str
    metric: str
    before: Tally
    after: Tally
    design_effect: float = 1.0  #: at least 1; by how much correlation inflates the variance


def movements(pairs: Sequence[Pair], *, min_n: int) -> list[Movement]:
    """
    Compare each pair that has at least *min_n* scores on both sides, the largest move first.

    Those called certain are chosen by Benjamini and Hochberg's rule on pooled two-sample
    tests: of those chosen, at most a share q of 5 % is chance on average, for keys that
    are independent or positively dependent. Their intervals are widened to the level
    1 - R q / m (R chosen of m), so that at most the same share of the reported intervals misses;
    the others have the level 1 - q. Right for one look at two stretches fixed beforehand, as
    a digest's are; not for a figure that is renewed every few seconds.

    Source: Y. Benjamini, D. Yekutieli, "False discovery rate-adjusted multiple confidence
    intervals for selected parameters", JASA 100 (2005), 71-81.
    """
    compared, p_values = [], []
    for pair in pairs:
        if min(pair.before.n, pair.after.n) >= min_n:
            before, after = (
                window_stats(side).counts(pair.design_effect) for side in (pair.before, pair.after)
            )
            # The pooled normal approximation: are the two rates one? Two-sided.
            (passed, n), (passed_after, n_after) = before, after
            pooled = (passed + passed_after) / (n + n_after)
            variance = pooled * (1 - pooled) * (1 / n + 1 / n_after)
            z = (passed_after / n_after - passed / n) / math.sqrt(variance) if variance > 0 else 0.0
            p_values.append(math.erfc(abs(z) / math.sqrt(2)))
            compared.append((pair, before, after))
    chosen = benjamini_hochberg(p_values, FALSE_SHARE)
    share_chosen = sum(chosen) / len(chosen) if chosen else 0.0
    found = []
    for (pair, before, after), p_value, certain in zip(compared, p_values, chosen, strict=True):
        alpha = FALSE_SHARE * share_chosen if certain else FALSE_SHARE
        low, high = newcombe_interval(before, after, alpha=alpha)
        move = Movement(
            app=pair.app, metric=pair.metric, before=before[0] / before[1],
            after=after[0] / after[1], n_before=before[1], n_after=after[1],
            low=low, high=high, p_value=p_value, certain=certain,
        )  # fmt: skip
        found.append(move)
    return sorted(found, key=lambda item: (-abs(item.difference), item.app, item.metric))
