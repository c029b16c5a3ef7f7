"""Every way to be blind, as a condition of its own with words that say what to do."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from alerts.conditions import (
    CONDITIONS,
    FLEET_FELL,
    SELF,
    AppVitals,
    SystemVitals,
    app_conditions,
    fleet_verdict,
    system_conditions,
    verdicts_on,
)
from alerts.drill import sample_snapshot
from alerts.message import render
from monitor.models.alerting import AlertEvent, Severity
from monitor.models.status import FleetFall, Status
from workers.self_monitoring import broken_link

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
WELL = AppVitals(
    app="shop", heartbeat_age_s=4.0, seen=1000, seen_a_week_ago=900, sampled=50, sent=50,
    scored=48, failed={"timeout": 1}, skipped={"no_claim": 1},
    judges_before={"g": "j1"}, judges_now={"g": "j1"},
)  # fmt: skip
SYSTEM = SystemVitals(oldest_waiting_s=3.0, waiting=2, undelivered_s={"slack": 1.0})


def test_healthy_app_and_system_have_no_conditions():
    assert app_conditions(WELL) == system_conditions(SYSTEM) == {}
    assert app_conditions(AppVitals(app="new")) == system_conditions(SystemVitals()) == {}


@pytest.mark.parametrize(
    ("kind", "changes", "reason"),
    [
        ("hook_silent", {"heartbeat_age_s": 600.0, "seen": 0}, "10 min old"),
        ("traffic_stopped", {"seen": 0}, "0 requests; 900 at this time a week ago"),
        ("samples_dropped", {"dropped": {"queue_full": 9}}, "9 of 50 samples: queue_full 9"),
        ("samples_dropped", {"dropped": {"a": 7, "b": 9, "c": 8}}, "24 of 50 samples: b 9, c 8"),
        ("coverage_low", {"scored": 2, "failed": {}, "skipped": {}}, "2 of 50"),
        ("judge_errors", {"failed": {"judge_rate_limited": 12}}, "judge_rate_limited 12"),
        ("budget_reached", {"skipped": {"budget_reached": 30}}, "30 of"),
        ("contexts_missing", {"skipped": {"no_context": 60}}, "60 of"),
        ("judge_changed", {"judges_now": {"g": "j2"}}, "g went from j1 to j2"),
    ],
)
def test_each_app_condition_is_raised_alone_with_its_reason(kind, changes, reason):
    found = app_conditions(replace(WELL, **changes))
    assert list(found) == [f"monitor:{kind}"]
    assert reason in found[f"monitor:{kind}"]


@pytest.mark.parametrize(
    "changes",
    [
        {"seen": 0, "seen_a_week_ago": 3},  # it never had much traffic
        {"failed": {"timeout": 2}, "scored": 3, "sent": 5},  # too few tries to say
        {"sent": 10, "scored": 0, "failed": {}, "skipped": {}},
        {"judges_now": {}},
        {"skipped": {"no_context": 19}, "scored": 0, "failed": {}, "sent": 19},
        {"skipped": {"no_context": 24}, "scored": 24, "failed": {}},  # just half
    ],
)
def test_insufficient_vitals_raise_no_condition(changes):
    assert app_conditions(replace(WELL, **changes)) == {}


@pytest.mark.parametrize(
    ("kind", "name", "within", "beyond"),
    [
        ("hook_silent", "heartbeat_age_s", 299.9, 300.0),
        ("samples_dropped", "dropped", {"a": 5, "b": 5}, {"a": 6, "b": 5}),  # of 1,000
        ("coverage_low", "scored", 498, 497),  # of 1,000 with one that failed and one skipped
        ("judge_errors", "failed", {"a": 50, "b": 50}, {"a": 51, "b": 50}),  # of 1,000
        ("contexts_missing", "skipped", {"no_context": 901}, {"no_context": 902}),  # half
        ("budget_reached", "skipped", {"budget_reached": 19}, {"budget_reached": 20}),
        ("traffic_stopped", "seen_a_week_ago", 19, 20),
    ],
)
def test_app_condition_starts_at_its_limit(kind, name, within, beyond):
    well = replace(WELL, sampled=900, sent=1000, scored=900)
    if kind == "traffic_stopped":
        well = replace(well, seen=0)
    assert app_conditions(replace(well, **{name: within})) == {}
    assert list(app_conditions(replace(well, **{name: beyond}))) == [f"monitor:{kind}"]


@pytest.mark.parametrize(
    ("kind", "name", "within", "beyond"),
    [
        ("queue_lag", "oldest_waiting_s", 299.9, 300.0),
        ("evaluator_stale", "since_evaluation_s", 60.0, 60.1),
        ("channel_failing", "undelivered_s", {"mail": 299.9}, {"mail": 300.0}),
        ("store_unsafe", "clock_skew_s", 5.0, 5.1),
        ("store_unsafe", "clock_skew_s", -5.0, -5.1),
    ],
)
def test_system_condition_starts_at_its_limit(kind, name, within, beyond):
    well = replace(SYSTEM, evaluate_every_s=10.0)
    assert system_conditions(replace(well, **{name: within})) == {}
    assert list(system_conditions(replace(well, **{name: beyond}))) == [f"monitor:{kind}"]


def test_evaluator_is_stale_after_three_missed_evaluations():
    slow = replace(SYSTEM, evaluate_every_s=100.0)
    assert system_conditions(replace(slow, since_evaluation_s=300.0)) == {}
    assert system_conditions(replace(slow, since_evaluation_s=300.1)) != {}


@pytest.mark.parametrize(
    ("kind", "changes", "reason"),
    [
        ("judge_away", {"judge_away": "its endpoint answered 401"}, "answered 401"),
        (
            "budget_reached",
            {"budget_reached": "the judge's budget of $1.00 a day is reached"},
            "$1",
        ),
        (
            "queue_lag",
            {"oldest_waiting_s": 900.0, "waiting": 4000},
            "4,000 wait, the oldest for 15",
        ),
        ("evaluator_stale", {"since_evaluation_s": 300.0}, "no evaluation for 5 min"),
        (
            "channel_failing",
            {"undelivered_s": {"slack": 400.0, "mail": 2.0}},
            "slack for 6 min 40 s",
        ),
        ("dead_letters", {"dead_letters": 3}, "3 in the last week"),
        ("store_unsafe", {"unsafe": ("Redis evicts",)}, "Redis evicts"),
        ("store_unsafe", {"clock_skew_s": -9.0}, "differ by 9 s"),
    ],
)
def test_each_system_condition_is_raised_alone_with_its_reason(kind, changes, reason):
    found = system_conditions(replace(SYSTEM, **changes))
    assert list(found) == [f"monitor:{kind}"]
    assert reason in found[f"monitor:{kind}"]


@pytest.mark.parametrize("kind", CONDITIONS)
def test_condition_message_says_what_is_wrong_and_what_to_do(kind):
    (verdict,) = verdicts_on("shop", {kind: "the reason"}, [kind], window_s=3600, now=NOW)
    assert verdict.status is Status.WARNING
    changes = {"verdict": verdict, "level": Severity.WARNING, "samples": ()}
    snapshot = sample_snapshot(NOW).model_copy(update=changes)
    text = render(snapshot, {AlertEvent.FIRED}).text
    for part in (CONDITIONS[kind].ill, CONDITIONS[kind].advice, "the reason"):
        assert part in text
    over = render(snapshot, {AlertEvent.RESOLVED}).text
    assert CONDITIONS[kind].well in over
    assert CONDITIONS[kind].advice not in over


def fall(metric="groundedness", status=Status.WARNING, fell=("a", "b", "c")):
    return FleetFall(
        metric=metric, evaluator_version="v", status=status, status_since=NOW, since=NOW,
        pass_rate=0.659, low=0.61, high=0.7, n=1200, fell=fell, n_apps=9, cause="they share m2",
    )  # fmt: skip


def test_apps_that_fell_together_are_named_with_their_rate_and_what_they_share():
    verdict = fleet_verdict([fall(), fall("relevance", fell=tuple("abcde"))], window_s=60, now=NOW)
    first, second = verdict.reason.split("; they share m2; ")
    assert first.startswith("3 apps fell together (a, b, c): groundedness 65.9 %")
    assert "of all pass, n = 1,200, since " in first
    assert second.startswith("5 apps fell together (a, b, c and 2 more): relevance")
    assert (verdict.status, verdict.evidence) == (Status.WARNING, "probable")
    assert (verdict.app, verdict.metric, verdict.window_s) == (SELF, FLEET_FELL, 60)


def test_common_fall_condition_is_critical_if_any_fall_is():
    worse = fleet_verdict([fall(), fall(status=Status.CRITICAL)], window_s=60, now=NOW)
    none = fleet_verdict([], window_s=60, now=NOW)
    assert (worse.status, none.status, none.evidence) == (Status.CRITICAL, Status.HEALTHY, "none")
    assert none.reason == CONDITIONS[FLEET_FELL].well


LINKS = dict.fromkeys(("the evaluator", "the queue", "the dispatcher"), NOW)
LONG_AGO = NOW - timedelta(minutes=10)


def broken(links=(), *, oldest_sample_s=2.0, oldest_message_at=None):
    return broken_link(
        NOW, LINKS | dict(links), oldest_sample_s=oldest_sample_s,
        oldest_message_at=oldest_message_at, fresh_s=120, patience_s=300,
    )  # fmt: skip


def test_working_monitoring_chain_has_no_broken_link():
    assert broken() is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"links": {"the evaluator": LONG_AGO}}, "the evaluator is late"),
        ({"links": {"the evaluator": None}}, "the evaluator is late"),
        ({"links": {"the queue": LONG_AGO}}, "the queue is late"),
        ({"links": {"the dispatcher": LONG_AGO}}, "the dispatcher is late"),
        ({"oldest_sample_s": 301.0}, "samples wait"),
        ({"oldest_message_at": LONG_AGO}, "messages wait"),
        ({"links": {"the evaluator": NOW + timedelta(hours=1)}}, "the evaluator is late"),
    ],
)
def test_broken_link_of_the_monitoring_chain_is_named(changes, named):
    assert broken(**changes) == named
