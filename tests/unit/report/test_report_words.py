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
    verdict_rate,
)
from monitor.testing.factories import make_verdict

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
H, W, C, I, B = Status  # noqa: E741


def test_rate_comes_with_its_interval_when_there_is_one():
    verdict = make_verdict(C, NOW, pass_rate=0.62, low=0.55, high=0.69)

    assert verdict_rate(verdict) == "62.0 % (55.0–69.0)"


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
def test_count_comes_with_its_parts_when_written(counts, words):
    assert reasons(counts) == words


def test_drift_has_dashes_when_its_figures_are_missing():
    assert drift_sentence(Drift()) == "reference before the window: – of 0"


@pytest.mark.parametrize(("n", "is_told"), [(199, False), (200, True)])
def test_distances_are_told_when_the_reference_is_large(n, is_told):
    said = drift_sentence(Drift(reference_pass_rate=0.9, reference_n=n, psi=1.11, ks=0.43))
    assert ("PSI 1.11, KS 0.43 (by itself no finding of drift)" in said) is is_told


def test_plain_rule_is_told_where_it_says_another_status():
    verdict = make_verdict(H, NOW, point_status=C, reason="no evidence")
    assert reason_sentence(verdict) == "no evidence; by the plain rule: CRITICAL"


@pytest.mark.parametrize(("status", "plain"), [(H, H), (B, I)])
def test_plain_rule_is_not_told_where_it_adds_nothing(status, plain):
    assert reason_sentence(make_verdict(status, NOW, point_status=plain, reason="x")) == "x"


def test_cost_of_several_metrics_is_summed():
    verdicts = [make_verdict(H, NOW, cost_usd=0.0226) for _ in range(2)]
    assert cost_sentence(verdicts).startswith("all 2 metrics together: $0.0452")
    assert cost_sentence(verdicts[:1]) == cost_sentence([make_verdict(H, NOW)] * 2) == ""


@pytest.mark.parametrize(
    ("statuses", "words"),
    [
        ({}, "No app has sent anything yet."),
        ({"a": H}, "a is healthy."),
        ({"a": H, "b": H}, "All healthy."),
        ({"a": W}, "a is at warning."),
        ({"b": C, "a": C}, "a, b are CRITICAL."),
        ({"a": I}, "a is without enough data."),
        ({"a": B}, "a is not visible: the monitor is blind."),
        ({"a": H, "b": I}, "b is without enough data."),
        (
            {"a": I, "b": B, "c": W, "d": C, "e": H},
            (
                "d is CRITICAL; c is at warning; b is not visible: the monitor is blind;"
                " a is without enough data."
            ),
        ),
    ],
)
def test_headline_names_what_is_not_well_when_apps_differ(statuses, words):
    assert headline(statuses) == words


def test_judge_sentence_says_what_was_asked_saved_and_paid():
    verdict = make_verdict(H, NOW, n=1_000, n_judged=120, n_agreed=108, cost_usd=0.12)
    assert judge_sentence(verdict) == (
        "the judge was asked about 120 of 1,000 samples;"
        " the local score agrees on 90.0 %; this metric's share of the cost $0.12"
    )


def test_nothing_is_said_of_a_judge_that_is_not_there():
    assert judge_sentence(make_verdict(H, NOW)) == ""


def test_headline_names_a_few_apps_and_counts_the_others():
    said = headline({f"app-{i}": Status.CRITICAL for i in range(9)})
    assert said == "app-0, app-1, app-2, app-3 and 5 more apps are CRITICAL."
