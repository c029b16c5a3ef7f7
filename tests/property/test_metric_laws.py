"""Laws that metrics keep: identity, composition, and what verification must not change."""

from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.models.evaluation import Direction, PassRule
from monitor.scoring.base import Claim, ClaimVerdict, Judgement
from monitor.scoring.batch import summarise
from monitor.scoring.entailment import StreamingGrounding
from monitor.scoring.measures import (
    normalised_entropy,
    simple_average,
    weighted_average,
    weighted_mean,
)
from monitor.scoring.metrics import METRICS, retrieval
from monitor.scoring.metrics.marks import cited_claims
from monitor.scoring.registry import make_scorer
from monitor.scoring.sentences import split_sentences
from monitor.settings import Settings
from monitor.testing import make_evaluation, make_interaction

shares = st.floats(0, 1)
flags = st.lists(st.booleans(), min_size=1, max_size=20)
ids = st.lists(st.sampled_from("abcdefgh"), max_size=10)
relevant = st.sets(st.sampled_from("abcdefgh"), min_size=1)
counts = st.builds(retrieval.Counts, *[st.integers(0, 9)] * 3)


def computed(name, expected=None, **metadata):
    metric = METRICS[name]
    record = make_interaction(expected=expected or {}, metadata=metadata)
    return metric.compute(record, metric.declaration.parameters()).score


def claim(text, support, **more):
    return Claim(text=text, verdict=ClaimVerdict.SUPPORTED, support=support, **more)


@given(flags, flags)
def test_faithfulness_of_joined_answers_is_their_weighted_mean(one, other):
    n, m = len(one), len(other)
    together = (n * weighted_mean(one) + m * weighted_mean(other)) / (n + m)
    assert abs(weighted_mean(one + other) - together) < 1e-9


@given(st.lists(counts, max_size=8), st.lists(counts, max_size=8))
def test_micro_f1_composes_through_its_counts(one, other):
    def whole(queries):
        return retrieval.Counts(*(sum(column) for column in zip(*queries, strict=True)))

    parts = [whole(part) for part in (one, other) if part]
    assert retrieval.micro_average_f1(one + other) == retrieval.micro_average_f1(parts)


@given(st.lists(shares, min_size=1, max_size=5), st.lists(shares, min_size=1, max_size=5))
def test_minimum_metric_composes(one, other):
    def worst(values):
        scored = [
            make_evaluation(evaluator_name=str(n), score=value) for n, value in enumerate(values)
        ]
        return summarise(scored, "minimum").summary_score

    assert worst(one + other) == min(worst(one), worst(other))


@given(st.lists(shares, max_size=8), shares, shares)
def test_valid_chains_compose_when_confidence_does_not_fall_between_them(chain, first, last):
    one, other = sorted([*chain, first]), sorted([last, *chain])
    meets = one[-1] <= other[0]
    assert computed("chain_integrity", verification_chain=one) == 1
    assert computed("chain_integrity", verification_chain=other) == 1
    assert computed("chain_integrity", verification_chain=one + other) == meets


@given(ids, relevant, st.integers(1, 10))
def test_retrieval_scores_are_between_zero_and_one_and_grow_with_k(retrieved, wanted, k):
    for score in (retrieval.precision_of, retrieval.recall_of, retrieval.f1_of):
        assert 0 <= score(retrieved, wanted, k) <= 1
    assert retrieval.recall_of(retrieved, wanted, k) <= retrieval.recall_of(
        retrieved, wanted, k + 1
    )


@given(ids, relevant, st.integers(1, 10))
def test_ranking_by_gain_has_the_best_ndcg(retrieved, wanted, k):
    gains = dict.fromkeys(wanted, 1.0)
    best = retrieval.normalised_dcg(sorted(wanted), gains, k)
    assert abs(best - 1) < 1e-9
    assert 0 <= retrieval.normalised_dcg(retrieved, gains, k) <= best + 1e-9


@given(st.lists(shares, min_size=1, max_size=6))
def test_passage_pairs_never_lower_the_grounding(supports):
    judged = Judgement(claims=tuple(claim(f"Fact {n}.", x) for n, x in enumerate(supports)))
    record = make_interaction(contexts=["Fact 0. Fact 1.", "Fact 2.", "No fact."])
    single, pairs = (
        METRICS[name].read(judged, record, None).score
        for name in ("grounding_score", "multi_document_grounding")
    )
    assert single - 1e-9 <= pairs <= 1


@given(st.dictionaries(st.sampled_from("abcde"), shares, min_size=1))
def test_averages_lie_between_the_worst_and_the_best(scores):
    average = simple_average(scores)
    assert min(scores.values()) - 1e-9 <= average <= max(scores.values()) + 1e-9
    turned = simple_average(scores, lower=scores)
    assert abs(average + turned - 1) < 1e-9
    assert weighted_average(scores, dict.fromkeys(scores, 3.0)) is not None


@given(st.lists(st.floats(0, 100), min_size=1, max_size=9).filter(lambda w: sum(w) > 1e-6))
def test_entropy_is_within_its_bounds(weights):
    assert 0 <= normalised_entropy(weights) <= 1


@given(st.lists(st.sampled_from("abcd")), st.lists(st.sampled_from("abcd"), min_size=1))
def test_trajectory_match_is_between_zero_and_one_and_one_if_expected(actual, expected):
    wanted = {"trajectory": expected}
    assert 0 <= computed("trajectory_match", wanted, trajectory=actual) <= 1
    steps = list(dict.fromkeys(expected))
    assert abs(computed("trajectory_match", wanted, trajectory=steps) - 1.0) < 1e-9


@given(shares, st.sampled_from(["[1]", "[2]", "[9]"]), st.sampled_from("12"))
def test_citation_quality_is_between_zero_and_one(support, mark, expected):
    judged = Judgement(claims=(claim("It is so.", support, by_passage=(support, 0.0)),))
    record = make_interaction(
        contexts=["a", "b"], output=f"It is so {mark}.", expected={"citations": [expected]}
    )
    assert 0 <= METRICS["citation_quality"].read(judged, record, None).score <= 1 + 1e-9


@settings(max_examples=60)
@given(st.text("ab1 .[],;\n", max_size=60))
def test_parsed_citation_marks_are_removed_from_their_claim(text):
    for claim in cited_claims(text):
        assert not any(f"[{each}]" in claim.text for each in claim.cited)
        assert not set("[],; ") & set("".join(claim.cited))


@given(shares, st.sampled_from(list(Direction)))
def test_pass_rule_and_its_mirror_image_agree(score, direction):
    rule = PassRule.mirrored(0.7, direction)
    good = score if direction is Direction.HIGHER else 1 - score
    if abs(good - 0.7) > 1e-6:
        assert rule.passes(score) == (good >= 0.7)


SCORED = ("faithfulness", "hallucination", "citation_accuracy", "length", "tool_completeness")
SCORER = make_scorer(Settings(metrics=SCORED))
SAID = ["refund", "card", "paid", "five", "days", "cats", "[1]", "."]
words = st.lists(st.sampled_from(SAID), max_size=12)


@settings(max_examples=40)
@given(words)
def test_verification_is_pure_and_repeatable(said):
    interaction = make_interaction(output=" ".join(said), expected={"tools": ["search"]})
    before = interaction.model_dump_json()
    first, second = (
        [(each.score, each.reason) for each in SCORER.score(interaction)] for _ in range(2)
    )
    assert first == second
    assert interaction.model_dump_json() == before


PIECES = ["Refunds take five days. ", "Cats", " fly at", " night! ", "Prof.", " Lee agrees", ".\n"]
PIECES += ["- a list", "? ", "3.5 ", "e.g. this", "... ", "“Yes.” "]
text_of = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@settings(max_examples=60)
@given(text_of, st.lists(st.integers(1, 9), max_size=40))
def test_streaming_judges_the_same_sentences_however_the_text_is_cut(text, sizes):
    stream = StreamingGrounding(["Refunds take five days."])
    rest = text
    for size in sizes:
        stream.feed(rest[:size])
        rest = rest[size:]
    stream.feed(rest)
    stream.finish()
    assert tuple(each.sentence for each in stream.judged) == split_sentences(text)
