"""Figures and states in words."""

from datetime import UTC, datetime

import pytest

from monitor.models import Drift, Status
from monitor.report.words import (
    cost_sentence,
    drift_sentence,
    headline,
    judge_sentence,
    reason_sentence,
    reasons,
    skip_sentence,
    unscored_sentence,
    verdict_rate,
    verdict_word,
)
from monitor.scoring.metrics import METRICS
from monitor.testing import make_verdict

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
H, W, C, I, B = Status  # noqa: E741


def test_rate_comes_with_its_interval_when_there_is_one():
    verdict = make_verdict(C, NOW, pass_rate=0.62, low=0.55, high=0.69)

    assert verdict_rate(verdict) == "62.0 % (55.0–69.0)"


def test_rate_without_a_matching_interval_is_marked_as_possible_chance():
    verdict = make_verdict(C, NOW, pass_rate=0.62, low=None, high=None)
    assert verdict_rate(verdict) == "62.0 %, may be chance"


@pytest.mark.parametrize("missing", ["pass_rate", "low", "high"])
def test_rate_is_a_dash_when_any_part_is_missing(missing):
    assert verdict_rate(make_verdict(C, NOW, **{missing: None})) == "–"


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({}, "0"),
        ({"": 4}, "4"),
        ({"no_context": 1000, "no_claim": 2}, "1,002 (no_context 1,000, no_claim 2)"),
        ({"\x1b[31mred": 1}, "1 ([31mred 1)"),
    ],
)
def test_count_is_written_with_its_parts(counts, words):
    assert reasons(counts) == words


def test_drift_has_dashes_when_its_figures_are_missing():
    assert drift_sentence(Drift()) == "reference: – (n 0)"


@pytest.mark.parametrize(("n", "is_told"), [(199, False), (200, True)])
def test_drift_distances_are_shown_when_the_reference_is_large(n, is_told):
    said = drift_sentence(Drift(reference_pass_rate=0.9, reference_n=n, psi=1.11, ks=0.43))
    assert ("PSI 1.11, KS 0.43, not evidence of drift" in said) is is_told


def test_simple_threshold_check_is_shown_when_it_disagrees():
    verdict = make_verdict(H, NOW, point_status=C, reason="no evidence")
    assert reason_sentence(verdict) == "no evidence; simple threshold check: CRITICAL"


@pytest.mark.parametrize(("status", "plain"), [(H, H), (B, I)])
def test_simple_threshold_check_is_hidden_when_it_agrees(status, plain):
    assert reason_sentence(make_verdict(status, NOW, point_status=plain, reason="x")) == "x"


def test_cost_of_several_metrics_is_summed():
    verdicts = [make_verdict(H, NOW, cost_usd=0.0226) for _ in range(2)]
    assert cost_sentence(verdicts).startswith("2 metrics together: $0.0452")
    assert cost_sentence(verdicts[:1]) == cost_sentence([make_verdict(H, NOW)] * 2) == ""


@pytest.mark.parametrize(
    ("statuses", "words"),
    [
        ({}, "No app has sent anything yet."),
        ({"a": H}, "a is healthy."),
        ({"a": H, "b": H}, "All 2 apps are healthy."),
        ({"a": W}, "1 app needs attention: a (warning)."),
        ({"b": C, "a": C}, "2 apps need attention: a (CRITICAL), b (CRITICAL)."),
        ({"a": I}, "Not enough data yet for a."),
        ({"a": B}, "Monitoring is blind for a."),
        ({"a": H, "b": I}, "Not enough data yet for b."),
        (
            {"a": I, "b": B, "c": W, "d": C, "e": H},
            (
                "2 apps need attention: d (CRITICAL), c (warning); monitoring is blind for b;"
                " not enough data yet for 1 app."
            ),
        ),
    ],
)
def test_headline_names_the_unhealthy_apps(statuses, words):
    assert headline(statuses) == words


def test_judge_sentence_shows_judged_samples_agreement_and_cost():
    verdict = make_verdict(H, NOW, n=1_000, n_judged=120, n_agreed=108, cost_usd=0.12)
    assert judge_sentence(verdict) == (
        "LLM judge: 120 of 1,000 samples; the local scorer agrees on 90.0 % of them;"
        " cost for this metric $0.12"
    )


def test_no_judge_sentence_without_a_judge():
    assert judge_sentence(make_verdict(H, NOW)) == ""


def test_headline_names_a_few_apps_and_counts_the_others():
    said = headline({f"app-{i}": Status.CRITICAL for i in range(9)})
    assert said == (
        "9 apps need attention: app-0 (CRITICAL), app-1 (CRITICAL), app-2 (CRITICAL) and 6 more."
    )


@pytest.mark.parametrize(
    ("phase", "word"),
    [("collecting", "collecting data"), ("undecided", "undecided"), (None, "not enough data")],
)
def test_insufficient_data_is_worded_by_its_phase(phase, word):
    assert verdict_word(make_verdict(I, NOW, phase=phase)) == word


@pytest.mark.parametrize("metric", METRICS)
def test_every_reason_for_a_missing_score_is_put_in_words(metric):
    declared = METRICS[metric].declaration.reasons()
    assert [reason for reason in declared if not skip_sentence(reason)] == []


def test_reason_in_words_has_what_the_metric_says_itself():
    said = skip_sentence("part_missing", "2 of 3 parts are missing: a, b.")
    assert said.endswith("it is made of have no score. 2 of 3 parts are missing: a, b.")
    assert skip_sentence("no_metadata_plan") == "The sample has no metadata.plan."
    assert (skip_sentence("own_rule"), skip_sentence("own_rule", "Why.")) == ("", "Why.")


def test_status_says_what_the_commonest_reasons_mean():
    assert unscored_sentence({"judge_timeout": 1}, {"own": 9, "no_query": 2}, 3600) == (
        "not scored in the last 1 h: failed 1 (judge_timeout 1), skipped 11 (own 9, no_query 2);"
        " no_query: The sample has no question"
    )
    assert unscored_sentence({}, {}, 3600) == ""


def test_text_that_words_cannot_judge_is_called_so():
    said = skip_sentence("unsupported_text")
    assert "local scorer cannot judge this kind of text" in said
    assert "translation" in said
