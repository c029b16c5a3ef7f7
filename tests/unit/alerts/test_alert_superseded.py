"""What is judged in another way is closed; what fires again soon is reopened."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from alerts.conditions import RULE_SETS, judge_all
from alerts.model import AlertKey, AlertState, AlertThresholds, Evidence, JudgedBy, Phase, Reason
from alerts.state import MOST_A_DAY, Observation, Timers, step
from monitor.models.alerting import AlertEvent
from monitor.models.status import Status
from monitor.testing import make_verdict

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
AT_ONCE = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=14_400)
HELD = replace(AT_ONCE, warning_for_s=300, critical_for_s=300)
LETTERS = dict(zip("hwcu", Evidence, strict=True))
LINES = AlertThresholds(warning_rate=0.88, critical_rate=0.8)
FIRED, RESOLVED = AlertEvent.FIRED, AlertEvent.RESOLVED


class Alert:
    """One key, evaluated every minute by an evaluator that may change."""

    def __init__(self, timers=AT_ONCE):
        self.state, self.now = AlertState(key=AlertKey("app", "metric", "*", 60)), START
        self.timers, self.last = timers, None

    def feed(self, letters, evaluator="v1"):
        """Feed evaluations; return the events that people hear of."""
        heard = []
        for letter in letters:
            self.now += timedelta(minutes=1)
            observation = Observation(
                evidence=LETTERS[letter],
                at=self.now,
                n_total=int(self.now.timestamp()),
                basis=None if evaluator is None else JudgedBy(evaluator=evaluator),
            )
            self.last = step(self.state, observation, self.now, self.timers)
            self.state = self.last.state
            if self.last.event and not self.last.quiet:
                heard.append(self.last.event)
        return heard


@pytest.fixture
def firing():
    alert = Alert()
    alert.feed("c")
    return alert


@pytest.mark.parametrize("letter", "hwcu")
def test_firing_alert_is_closed_once_when_the_evaluator_changes(firing, letter):
    assert firing.feed(letter, "v2") == [RESOLVED]
    assert (firing.last.reason, firing.state.phase) == (Reason.SUPERSEDED, Phase.OK)
    assert firing.feed("h" * 5, "v2") == []


def test_breach_under_a_new_evaluator_is_a_new_incident(firing):
    before = firing.state.incident_id
    assert firing.feed("cc", "v2") == [RESOLVED, FIRED]
    assert firing.state.incident_id != before
    assert firing.last.reason is Reason.BREACH_HELD


def test_breach_time_under_another_evaluator_does_not_count():
    alert = Alert(HELD)
    alert.feed("w" * 4)
    assert alert.feed("w" * 5, "v2") == []
    assert alert.feed("w", "v2") == [FIRED]
    assert alert.state.breach_since == START + timedelta(minutes=5)


@pytest.mark.parametrize("quiet_letters", ["", "h"])
def test_flapping_alert_is_closed_and_reported_too(quiet_letters):
    alert = Alert()
    alert.feed("wh" * 3 + "w" + quiet_letters)
    assert alert.state.quiet_since is not None
    assert alert.feed("h", "v2") == [RESOLVED]
    assert alert.state.quiet_since is None


def test_at_most_ten_messages_a_day_despite_constant_changes():
    alert, heard = Alert(), []
    for number in range(40):
        heard += alert.feed("c", f"v{number}")
        heard += alert.feed("c", f"v{number}")
    assert len(heard) == MOST_A_DAY


def test_state_without_a_basis_adopts_the_first_one(firing):
    firing.state = firing.state.but(basis=None)
    assert firing.feed("c", "v2") == []
    assert firing.feed("c", None) == []
    assert firing.state.basis == JudgedBy(evaluator="v2")


def test_alert_refired_soon_is_the_same_incident(firing):
    before = firing.state
    assert firing.feed("h" + "h" * 29 + "w") == [RESOLVED, FIRED]
    after = firing.state
    assert (after.incident_id, after.sequence) == (before.incident_id, 3)
    assert (after.peak, after.opened_at, firing.last.reason) == (
        "warning", firing.now, Reason.REOPENED,
    )  # fmt: skip


def test_alert_refired_later_is_a_new_incident(firing):
    before = firing.state.incident_id
    assert firing.feed("h" * 32 + "w") == [RESOLVED, FIRED]
    assert firing.state.incident_id != before


def test_reopening_can_be_switched_off(firing):
    before = firing.state.incident_id
    firing.timers = replace(AT_ONCE, reopen_within_s=0)
    firing.feed("hhw")
    assert firing.state.incident_id != before


def verdict(metric="groundedness", **changes):
    found = make_verdict(Status.CRITICAL, START, metric=metric, evaluator_version="g@1")
    return found.model_copy(update=changes)


def test_basis_of_a_status_is_evaluator_policy_and_thresholds():
    basis = JudgedBy.of(verdict(), LINES, None)
    for other in (
        JudgedBy.of(verdict(evaluator_version="g@2"), LINES, None),
        JudgedBy.of(verdict(policy="point"), LINES, None),
        JudgedBy.of(verdict(), AlertThresholds(warning_rate=0.85, critical_rate=0.8), None),
    ):
        assert other != basis
    later = verdict(evaluated_at=START + timedelta(hours=1), n=9, pass_rate=0.1, reason="other")
    assert JudgedBy.of(later, LINES, None) == basis


def rule_of(judged, rules):
    return next(rule for rule in rules if judged.metric == f"rule:{rule.name}")


def test_changed_rule_threshold_changes_the_basis():
    rules = RULE_SETS["rag"]
    lower = [replace(rule, below=rule.below and rule.below / 2) for rule in rules]
    judged = next(v for v in judge_all([verdict()], rules) if v.metric == "rule:groundedness")
    before, after = rule_of(judged, rules), rule_of(judged, lower)
    assert JudgedBy.of(judged, LINES, before) != JudgedBy.of(judged, LINES, after)


def test_rule_for_every_metric_is_independent_of_the_evaluator():
    rules = RULE_SETS["rag"]
    judged = next(v for v in judge_all([verdict()], rules) if v.metric == "rule:errors")
    other = judged.model_copy(update={"evaluator_version": "another@1"})
    rule = rule_of(judged, rules)
    assert JudgedBy.of(judged, LINES, rule) == JudgedBy.of(other, LINES, rule)


def test_alerts_about_the_monitor_are_never_superseded():
    assert JudgedBy.of(verdict("monitor:queue_lag"), LINES, None) is None


def test_changed_basis_is_named_in_words():
    before, now = (
        JudgedBy(evaluator="g@1", policy="point"),
        JudgedBy(evaluator="g@2", policy="point"),
    )
    assert before.changes_to(now) == "evaluator changed from g@1 to g@2"
    assert now.changes_to(now) == ""
