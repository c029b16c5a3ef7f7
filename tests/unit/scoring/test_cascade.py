"""A cascade: which samples are judged, and what is noted of the others."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import JudgeOutageError, JudgeReplyError
from monitor.models import EvaluationStatus, Tally
from monitor.models.evaluation import PassRule
from monitor.rolling.tallies import tally_of, window_stats
from monitor.scoring.base import Claim, ClaimVerdict, Judgement
from monitor.scoring.calibration import Calibration, Expected, VerdictHistory
from monitor.scoring.cascade import AnsweredShare, Cascade, JudgeSampling, draw
from monitor.scoring.pipeline import JudgementScorer
from monitor.scoring.registry import resolve_metrics
from monitor.settings import Settings
from monitor.testing import make_interaction

METRICS = ("groundedness", "relevance")
CLAIM = Claim(text="It is so.", verdict=ClaimVerdict.SUPPORTED, support=1.0)


class Says:
    """A judge that says what a function makes of an interaction."""

    def __init__(self, says, version="says-1-abc"):
        self.version = version
        self.says = says
        self.asked = 0

    def judge(self, interaction):
        self.asked += 1
        found = self.says(interaction)
        if isinstance(found, Exception):
            raise found
        return found

    def close(self):
        pass


def judgement(score, relevance=0.9, **more):
    return Judgement(claims=(CLAIM,), groundedness=score, relevance=relevance, **more)


def cascade(local, judge, share=0.1, metrics=METRICS, memory=None, **more):
    made = Says(judge)
    return Cascade(
        local=JudgementScorer(
            Says(local, "local-2-abc"), resolve_metrics(Settings(metrics=metrics))
        ),
        judge=JudgementScorer(made, resolve_metrics(Settings(metrics=metrics)), concurrency=5),
        sampling=JudgeSampling(share),
        calibration=Calibration(
            memory or VerdictHistory(), {name: PassRule(0.7) for name in metrics}
        ),
        **more,
    ), made


def test_cascade_scores_every_sample_with_few_judge_calls():
    both, judge = cascade(lambda _: judgement(0.5), lambda _: judgement(1.0, cost_usd=0.25))
    found = [both.score(make_interaction(), key=str(n)) for n in range(1_000)]
    assert all(e.status is EvaluationStatus.COMPLETED for pair in found for e in pair)
    assert 60 < judge.asked < 140
    assert sum(e.cost_usd or 0.0 for pair in found for e in pair) == pytest.approx(
        0.25 * judge.asked
    )


def test_cascade_metadata_has_what_the_tally_needs():
    both, _ = cascade(lambda _: judgement(0.5), lambda _: judgement(1.0), share=1.0)
    grounded, relevant = both.score(make_interaction(), key="k")
    assert (grounded.score, grounded.metadata["local_score"]) == (1.0, 0.5)
    assert grounded.metadata["judged"]
    assert grounded.metadata["judge_probability"] == 1.0
    assert grounded.metadata["pass_estimate"] == pytest.approx(1.0)
    assert relevant.evaluator_version == "cascade-says-1-abc-abc"
    assert grounded.evaluator_version == f"{relevant.evaluator_version}-2"


def test_same_sample_is_drawn_alike_in_every_process():
    assert draw("a") == draw("a") != draw("b")


def test_judge_draws_are_uniform():
    draws = np.array([draw(str(n)) for n in range(4_000)])
    assert np.abs(np.sort(draws) - np.linspace(0, 1, 4_000)).max() < 0.03


def test_undecided_samples_are_judged_more_often():
    asking = JudgeSampling(0.2)
    pairs = [(asking.probability(0.5), asking.probability(0.14)) for _ in range(500)]
    undecided, certain = np.mean(pairs[100:], axis=0)
    assert undecided / certain == pytest.approx(0.5 / 0.14, rel=0.05)
    assert (undecided + certain) / 2 == pytest.approx(0.2, rel=0.1)


def test_certain_samples_are_judged_too():
    assert JudgeSampling(0.2).probability(0.0) == pytest.approx(0.05)


@given(st.floats(0, 0.5), st.floats(0.5, 1))
def test_likely_failures_are_judged_with_at_least_even_probability(failing, even_or_better):
    def spread(passes):
        return Expected(passes, 0.5).spread

    assert spread(failing) == spread(0.5) >= spread(even_or_better)


def test_judge_share_can_rise_for_one_app():
    both, judge = cascade(
        lambda _: judgement(0.7),
        lambda _: judgement(1.0),
        share_of=lambda app: 0.5 if app == "falling" else 0.1,
    )
    counts = {}
    for app in ("well", "falling"):
        before = judge.asked
        found = [both.score(make_interaction(app=app), key=f"{app} {n}")[0] for n in range(1_000)]
        counts[app] = judge.asked - before
        mean = np.mean([each.metadata["judge_probability"] for each in found])
        assert mean == pytest.approx({"well": 0.1, "falling": 0.5}[app], rel=0.15)
    assert counts["well"] < 140
    assert counts["falling"] > 400


@given(st.lists(st.floats(0, 0.5), max_size=200), st.floats(0.01, 1), st.floats(0, 1))
def test_judge_probability_is_between_zero_and_one(spreads, share, factor):
    asking = JudgeSampling(share)
    assert all(0 < asking.probability(spread, factor=factor) <= 1 for spread in spreads)


def test_budget_lowers_the_recorded_judge_probability():
    both, judge = cascade(
        lambda _: judgement(0.5), lambda _: judgement(1.0), share=1.0, budget_factor=lambda: 0.25
    )
    found = [both.score(make_interaction(), key=str(n))[0] for n in range(400)]
    assert {e.metadata["judge_probability"] for e in found} == {0.25}
    assert 60 < judge.asked < 140


def test_judge_failure_is_recorded_with_its_class():
    both, _ = cascade(lambda _: judgement(0.5), lambda _: JudgeReplyError("odd"), share=1.0)
    grounded, _ = both.score(make_interaction(), key="k")
    assert (grounded.status, grounded.reason) == (EvaluationStatus.FAILED, "judge_reply_invalid")
    assert grounded.evaluator_version == f"{both.version}-2"


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_cascade_rate_is_unbiased_when_half_of_the_judge_calls_fail(share):
    answers = itertools.count()

    def judge(_):
        if next(answers) % 2:
            raise JudgeReplyError("odd")
        return judgement(1.0)

    both, _ = cascade(lambda _: judgement(0.5), judge, share=share, metrics=("groundedness",))
    found = [both.score(make_interaction(), key=str(n))[0] for n in range(2_000)]
    kept = [e.metadata["pass_estimate"] for e in found if e.status is EvaluationStatus.COMPLETED]
    assert len(kept) == pytest.approx(2_000 * (1 - share / 2), rel=0.05)
    assert np.mean(kept[500:]) == pytest.approx(1.0, abs=0.06)


def test_judge_outage_is_raised_to_the_worker():
    both, _ = cascade(lambda _: judgement(0.5), lambda _: JudgeOutageError("no key"), share=1.0)
    with pytest.raises(JudgeOutageError):
        both.score(make_interaction(), key="k")


def test_expectation_is_used_when_the_judge_gives_no_score():
    both, _ = cascade(lambda _: judgement(0.9), lambda _: judgement(1.0, relevance=None), share=1.0)
    _, relevant = both.score(make_interaction(), key="k")
    assert relevant.status is EvaluationStatus.COMPLETED
    assert not relevant.metadata["judged"]
    assert relevant.metadata["judge_skipped"] == "nothing_asked"


def test_unjudgeable_sample_is_skipped_without_a_judge_call():
    both, judge = cascade(lambda _: judgement(0.5), lambda _: judgement(1.0), share=1.0)
    found = both.score(make_interaction(contexts=[], query=None), key="k")
    assert [e.reason for e in found] == ["no_context", "no_query"]
    assert judge.asked == 0


def test_judge_share_is_higher_in_an_undecided_segment(monkeypatch):
    """Of two segments with the same local score the judge passes one always, one half."""
    monkeypatch.setattr("monitor.scoring.calibration._FRESH_S", 0.0)
    both, _ = cascade(
        lambda _: judgement(0.9),
        lambda each: judgement(float(each.tags["route"] == "sure" or int(each.id) % 4 < 2)),
        share=0.5,
        metrics=("groundedness",),
        dimensions=("route",),
    )
    asked = {"sure": [], "odd": []}
    for n in range(400):
        route = "odd" if n % 2 else "sure"
        [found] = both.score(make_interaction(id=str(n), tags={"route": route}), key=str(n))
        asked[route].append(found.metadata["judge_probability"])
    assert np.mean(asked["odd"][100:]) > 1.5 * np.mean(asked["sure"][100:])


def test_answered_share_is_learned_within_bounds():
    answering = AnsweredShare()
    assert answering.share == 1.0
    for _ in range(500):
        answering.note(answered=False)
    assert answering.share == 0.1


def test_rate_is_unbiased_and_covered_with_a_biased_local_score():
    """A hundred windows; the local score says pass far too often."""
    random = np.random.default_rng(11)
    rates, covered = [], []
    for run in range(100):
        chance = random.beta(3, 1.5, 120)
        truth = random.random(120) < chance
        seen = iter(zip(np.sqrt(chance), truth, strict=True))
        now = [0.0, False]
        both, _ = cascade(
            lambda _, now=now: judgement(now[0]),
            lambda _, now=now: judgement(float(now[1])),
            share=0.4,
            metrics=("groundedness",),
        )
        tallies = []
        for n, now[:] in enumerate(seen):
            [evaluation] = both.score(make_interaction(), key=f"{run} {n}")
            tallies.append(tally_of(evaluation, sample_rate=1.0, pass_score=0.7))
        window = window_stats(Tally.total(tallies))
        rates.append(window.pass_rate)
        covered.append(window.interval.low <= 3 / 4.5 <= window.interval.high)
    assert np.mean(rates) == pytest.approx(3 / 4.5, abs=4 * np.std(rates) / 100**0.5)
    assert np.mean(covered) >= 0.82  # an interval of 90 %, of a hundred windows


def test_judge_is_asked_about_claims_that_the_local_scorer_leaves_undecided():
    unsure = Claim(text="It is so.", verdict=ClaimVerdict.UNDECIDED, support=0.4)
    metrics = ("faithfulness", "hallucination")
    both, _ = cascade(
        lambda _: Judgement(claims=(unsure,), groundedness=0.4),
        lambda _: judgement(1.0),
        share=0.5,
        metrics=metrics,
    )
    found = [both.score(make_interaction(), key=str(n)) for n in range(50)]
    assert {e.status for pair in found for e in pair} == {EvaluationStatus.COMPLETED}
    local = [e.metadata["local_score"] for e in found[0]]
    assert local == pytest.approx([0.4, 0.6])
    judged = [pair for pair in found if pair[0].metadata["judged"]]
    assert 0 < len(judged) < 50
    assert {e.score for e in judged[0]} == {1.0, 0.0}
