"""The state machine, one rule a test; the rules together are in tests/property."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from alerts.drill import sample_snapshot
from alerts.model import AlertKey, AlertState, AlertThresholds, Evidence, Phase, Reason, Snapshot
from alerts.state import (
    Decision,
    Observation,
    Timers,
    close,
    step,
    timers_for,
    timers_from,
    timers_of_evidence,
)
from monitor.models.alerting import AlertEvent, Severity
from monitor.models.status import Status
from monitor.settings import Settings
from monitor.testing import make_verdict

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
KEY = AlertKey("support-bot", "groundedness", "*", 3600)
TIMERS = Timers(warning_for_s=600, critical_for_s=300, resolve_after_s=900, repeat_after_s=14_400)
AT_ONCE = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=14_400)
LETTERS = {
    "h": Evidence.HEALTHY,
    "w": Evidence.WARNING,
    "c": Evidence.CRITICAL,
    "u": Evidence.UNCERTAIN,
    "b": Evidence.UNCERTAIN,
}


class Alert:
    """One key, fed with a letter an evaluation: healthy, warning, critical, uncertain, blind."""

    def __init__(self, timers=TIMERS):
        self.timers, self.state, self.now, self.n_total = timers, AlertState(key=KEY), START, 0
        self.last = Decision(self.state, None, Reason.NOT_NEWER)

    def feed(self, letters, *, every_s=60, new=10):
        """Feed evaluations; return the events as (minute, event)."""
        events = []
        for letter in letters:
            self.now += timedelta(seconds=every_s)
            self.n_total += new
            observation = Observation(
                evidence=LETTERS[letter], at=self.now, n_total=self.n_total, blind=letter == "b"
            )
            self.last = step(self.state, observation, self.now, self.timers)
            self.state = self.last.state
            if self.last.event:
                events.append(self.last.event)
        return events


@pytest.fixture
def alert():
    return Alert()


@pytest.fixture
def firing(alert):
    alert.feed("c" * 6)
    assert alert.state.phase is Phase.FIRING
    return alert


@pytest.mark.parametrize(
    ("before", "letter", "lasts_s", "event"),
    [
        ("w", "w", 86_400, AlertEvent.REPEATED),
        ("wu", "u", 86_400, AlertEvent.RESOLVED),
        ("wh" * 4, "h", 28_800, AlertEvent.SETTLED),
    ],
    ids=["until a warning is repeated", "until it expires", "until flapping is over"],
)
def test_default_timers_match_the_manual_to_the_second(before, letter, lasts_s, event):
    alert = Alert(AT_ONCE)
    alert.feed(before)
    steps, rest_s = divmod(lasts_s - 1, 300)  # a longer pause would be a gap
    assert alert.feed(letter * steps, every_s=300) == []
    assert alert.feed(letter, every_s=rest_s) == []
    assert alert.feed(letter, every_s=1) == [event]


@pytest.mark.parametrize(("after_s", "reason"), [(1800, "REOPENED"), (1801, "BREACH_HELD")])
def test_alert_refired_within_half_an_hour_is_the_same_incident(after_s, reason):
    alert = Alert(AT_ONCE)
    alert.feed("wh")
    assert alert.feed("w", every_s=after_s) == [AlertEvent.FIRED]
    assert alert.last.reason is Reason[reason]


def test_breach_shorter_than_its_timer_does_not_fire(alert):
    assert alert.feed("h" + "w" * 10 + "h") == []
    assert alert.last.reason is Reason.CLEARED_WHILE_PENDING


def test_warning_fires_after_lasting_for_its_timer(alert):
    assert alert.feed("h" + "w" * 11) == [AlertEvent.FIRED]
    assert alert.state.level is Severity.WARNING


def test_critical_fires_sooner_than_a_warning(alert):
    assert alert.feed("c" * 5) == []
    assert alert.feed("c") == [AlertEvent.FIRED]


def test_worsening_pending_warning_fires_once_as_critical(alert):
    assert alert.feed("w" * 8 + "c" * 6) == [AlertEvent.FIRED]
    assert alert.state.level is Severity.CRITICAL
    assert alert.state.breach_since == START + timedelta(minutes=1)


def test_alert_stays_pending_without_new_samples(alert):
    assert alert.feed("c" * 30, new=0) == []
    assert alert.state.phase is Phase.PENDING


def test_alert_fires_once_two_evaluations_had_new_samples(alert):
    alert.feed("c")
    assert alert.feed("c" * 9, new=0) == []
    assert alert.feed("c") == [AlertEvent.FIRED]


def test_evidence_policy_timers_default_to_zero():
    timers = timers_of_evidence(TIMERS)
    assert (timers.warning_for_s, timers.critical_for_s, timers.resolve_after_s) == (0, 0, 0)


def test_alert_fires_at_once_with_a_zero_timer():
    alert = Alert(AT_ONCE)
    assert alert.feed("ch") == [AlertEvent.FIRED, AlertEvent.RESOLVED]


@pytest.mark.parametrize("letter", ["u", "h"])
def test_healthy_evidence_starts_no_alert(alert, letter):
    assert alert.feed(letter * 100) == []
    assert alert.state.phase is Phase.OK


def test_alert_keeps_firing_and_is_stale_on_uncertain_evidence(firing):
    began = firing.now + timedelta(minutes=1)
    assert firing.feed("u" * 1440) == []
    assert (firing.state.phase, firing.state.stale_since) == (Phase.FIRING, began)


def test_certain_evidence_ends_staleness(firing):
    firing.feed("uuuc")
    assert firing.state.stale_since is None


@pytest.mark.parametrize("before", ["", "hhh"])
def test_alert_expires_after_a_day_without_data(firing, before):
    firing.feed(before)
    assert firing.feed("u" * 1441) == [AlertEvent.RESOLVED]
    assert firing.last.reason is Reason.EXPIRED_NO_DATA
    assert firing.state.phase is Phase.OK


def test_blind_monitor_expires_no_alert():
    alert = Alert()
    alert.feed("w" * 11)
    assert alert.feed("b" * 3000) == []
    assert alert.feed("u" * 1440) == []
    assert alert.feed("u") == [AlertEvent.RESOLVED]


def test_uncertain_evidence_changes_only_timestamps(firing):
    before = firing.state
    firing.feed("u")
    now = firing.now
    assert firing.state == before.but(seen_at=now, stale_since=now, no_data_since=now)


def test_alert_resolves_once_healthy_has_lasted(firing):
    assert firing.feed("h" * 15) == []
    assert firing.feed("h") == [AlertEvent.RESOLVED]
    assert firing.last.reason is Reason.HEALTHY_HELD


def test_relapse_while_recovering_is_silent(firing):
    incident = firing.state.incident_id
    assert firing.feed("hhhh" + "c" * 60) == []
    assert (firing.state.phase, firing.state.incident_id) == (Phase.FIRING, incident)


def test_warning_escalates_once_critical_has_lasted(alert):
    alert.feed("w" * 11)
    assert alert.feed("c" * 6) == [AlertEvent.ESCALATED]
    assert (alert.state.level, alert.state.sequence) == (Severity.CRITICAL, 2)


def test_critical_deescalates_when_only_a_warning_is_left(firing):
    assert firing.feed("w" * 16) == [AlertEvent.DEESCALATED]
    assert (firing.state.level, firing.state.peak) == (Severity.WARNING, Severity.CRITICAL)


def test_deescalation_does_not_count_as_a_message(firing):
    told_at = firing.state.last_notified_at
    firing.feed("w" * 16)
    assert firing.state.last_notified_at == told_at


def test_critical_is_repeated_after_its_interval(firing):
    assert firing.feed("c" * 239) == []
    assert firing.feed("c") == [AlertEvent.REPEATED]


def test_warning_is_repeated_once_a_day(alert):
    assert alert.feed("w" * (11 + 1439)) == [AlertEvent.FIRED]
    assert alert.feed("w") == [AlertEvent.REPEATED]


def test_every_change_of_phase_keeps_its_reason(alert):
    story = []
    for letters in ("h", "c", "c" * 5, "h", "c", "h" * 17):
        alert.feed(letters)
        story.append(alert.state.reason)
    assert story == [
        None, Reason.PENDING, Reason.BREACH_HELD, Reason.RECOVERING, Reason.RELAPSED,
        Reason.HEALTHY_HELD,
    ]  # fmt: skip


def test_older_observation_changes_nothing(firing):
    replay = Observation(evidence=Evidence.HEALTHY, at=firing.now, n_total=10**6)
    decision = step(firing.state, replay, firing.now + timedelta(hours=1), TIMERS)
    assert decision == Decision(firing.state, None, Reason.NOT_NEWER)


def test_pause_longer_than_five_minutes_is_a_gap():
    assert Alert().feed("w" * 4, every_s=300) == [AlertEvent.FIRED]
    assert Alert().feed("w" * 40, every_s=301) == []


def test_three_missed_evaluations_are_a_gap_on_a_slow_schedule():
    assert timers_from(Settings(evaluate_every_s=10)).max_gap_s == 300
    assert timers_from(Settings(evaluate_every_s=200)).max_gap_s == 600


@pytest.mark.parametrize("after", ["c", "uc"])
def test_pending_timer_restarts_after_a_gap(alert, after):
    alert.feed("cccc")
    alert.feed(after[0], every_s=301)
    assert alert.feed(after[1:] + "c" * 4) == []
    assert alert.feed("c" * 2) == [AlertEvent.FIRED]


def test_flapping_critical_is_still_repeated(firing):
    assert firing.feed("hc" * 119) == []
    assert firing.feed("hc") == [AlertEvent.REPEATED]


def test_critical_is_repeated_while_the_monitor_is_blind(firing):
    assert firing.feed("b" * 239) == []
    assert firing.feed("b") == [AlertEvent.REPEATED]
    assert firing.last.reason is Reason.NO_NEWS_STILL_FIRING
    assert firing.feed("b" * 239) == []


@pytest.mark.parametrize("before", ["h", "w" * 16])
def test_nothing_else_is_repeated_while_the_monitor_is_blind(firing, before):
    firing.feed(before)
    assert firing.feed("b" * 500) == []


def test_critical_with_a_longer_timer_fires_as_a_warning_first():
    slow = Timers(warning_for_s=300, critical_for_s=600, resolve_after_s=900, repeat_after_s=14_400)
    alert = Alert(slow)
    assert alert.feed("c" * 6) == [AlertEvent.FIRED]
    assert alert.state.level is Severity.WARNING
    assert alert.feed("c" * 5) == [AlertEvent.ESCALATED]


def test_alert_fires_when_two_evaluator_versions_alternate(alert):
    events = []
    for minute in range(1, 12):
        at = START + timedelta(minutes=minute)
        version = {"evaluator_version": "old" if minute % 2 else "new", "n_total": 100 + minute}
        verdict = make_verdict(Status.WARNING, at, **version)
        decision = step(alert.state, Observation.of(verdict), at, TIMERS)
        alert.state = decision.state
        events.append(decision.event)
    assert events == [None] * 10 + [AlertEvent.FIRED]


def test_closing_resolves_the_incident(firing):
    decision = close(firing.state, firing.now + timedelta(days=2), TIMERS)
    assert (decision.event, decision.reason) == (AlertEvent.RESOLVED, Reason.NO_LONGER_EVALUATED)
    assert decision.state.phase is Phase.OK
    assert decision.state.sequence == 2


def test_clock_that_runs_ahead_does_not_freeze_the_alert(alert):
    ahead = Observation(evidence=Evidence.HEALTHY, at=START + timedelta(days=1), n_total=1)
    assert step(alert.state, ahead, START, TIMERS).state.seen_at == START


def test_clock_set_back_restarts_the_timers(firing):
    back = firing.now - timedelta(hours=2)
    decision = step(
        firing.state, Observation(evidence=Evidence.HEALTHY, at=back, n_total=1), back, TIMERS
    )
    assert (decision.state.phase, decision.state.seen_at) == (Phase.RECOVERING, back)


def test_new_breach_long_after_a_resolve_is_a_new_incident(firing):
    first = firing.state.incident_id
    firing.feed("h" * 46)
    assert firing.feed("c" * 6) == [AlertEvent.FIRED]
    assert firing.state.incident_id != first
    assert (firing.state.sequence, firing.last.reason) == (1, Reason.BREACH_HELD)


def test_state_survives_json(firing):
    firing.feed("hw")
    assert AlertState.model_validate_json(firing.state.model_dump_json()) == firing.state


def test_state_of_a_newer_release_is_read(firing):
    stored = firing.state.model_dump(mode="json")
    stored["colour"] = stored["bad"]["colour"] = "new"
    assert AlertState.model_validate(stored) == firing.state


@pytest.mark.parametrize("name", ["warning_for_s", "critical_for_s", "resolve_after_s"])
def test_evidence_policy_uses_only_configured_timers(name):
    names = {"warning_for_s", "critical_for_s", "resolve_after_s"}
    timers = timers_of_evidence(timers_from(Settings(**{name: 120})))
    assert {each: getattr(timers, each) for each in names} == dict.fromkeys(names, 0) | {name: 120}


@pytest.mark.parametrize("level", Severity)
def test_thresholds_must_be_between_zero_and_one(level):
    rates = {"warning_rate": 0.85, "critical_rate": 0.7}
    for within in (0, 1):
        assert AlertThresholds(**rates | {f"{level}_rate": within}).of(level) == within
    for beyond in (-0.01, 1.01):
        with pytest.raises(ValidationError):
            AlertThresholds(**rates | {f"{level}_rate": beyond})


def test_omitted_snapshot_fields_read_as_empty_defaults():
    """Both are stored without what is as usual; other releases read them."""
    needed = {name for name, field in Snapshot.model_fields.items() if field.is_required()}
    snapshot = Snapshot.model_validate(sample_snapshot(START).model_dump(include=needed))
    for read in (snapshot, snapshot.background, AlertState(key=KEY, phase=Phase.OK)):
        left = type(read).model_fields.keys() - needed - {"key", "phase", "background"}
        assert [name for name in sorted(left) if getattr(read, name)] == []
    assert AlertState(key=KEY).phase is Phase.OK
    assert snapshot.stored().keys() == needed


def test_configured_timer_is_a_minimum_for_evidence_policies_too():
    timers = timers_of_evidence(timers_from(Settings(warning_for_s=120)))
    state, events = AlertState(key=KEY), []
    for minute in range(4):
        at = START + timedelta(minutes=minute)
        verdict = make_verdict(Status.WARNING, at, n_total=100 + minute)
        decision = step(state, Observation.of(verdict), at, timers)
        state = decision.state
        events.append(decision.event)
    assert events == [None, None, AlertEvent.FIRED, None]


def test_alert_state_keeps_when_its_phase_began(alert):
    """A letter a minute: pending, firing, recovering, firing again, over."""
    story = []
    for letters in ("h", "w", "www", "w" * 7, "h", "hh", "w", "h" * 16):
        alert.feed(letters)
        since = alert.state.phase_since
        story.append((alert.state.phase.value, since and int((since - START).total_seconds() / 60)))
    assert story == [
        ("ok", None), ("pending", 2), ("pending", 2), ("firing", 12), ("recovering", 13),
        ("recovering", 13), ("firing", 16), ("ok", 32),
    ]  # fmt: skip
    assert alert.state.opened_at == START + timedelta(minutes=12)
    assert alert.state.resolved_at == START + timedelta(minutes=32)


def test_alert_state_keeps_the_status_before_the_breach(alert):
    alert.feed("hw")
    assert alert.state.status_before is Evidence.HEALTHY
    alert.feed("w")
    assert alert.state.status_before is Evidence.HEALTHY
    alert.feed("h")
    assert (alert.state.status_before, alert.state.level) == (None, None)
    other = Alert()
    other.feed("c")
    assert (other.state.status_before, other.state.level) == (None, Severity.CRITICAL)


def test_resolved_alert_keeps_its_worst_level_until_it_fires_again(firing):
    firing.feed("w" * 16)
    incident = firing.state
    assert (incident.level, incident.peak, incident.sequence) == (
        Severity.WARNING, Severity.CRITICAL, 2,
    )  # fmt: skip
    firing.feed("h" * 16)
    assert (firing.state.peak, firing.state.sequence) == (Severity.CRITICAL, 3)
    firing.feed("w" * 11)
    assert (firing.state.peak, firing.state.sequence) == (Severity.WARNING, 4)
    assert firing.state.resolved_at is None


def test_closed_alert_can_be_reopened_and_has_no_runs(firing):
    later = firing.now + timedelta(days=2)
    state = close(firing.state, later, TIMERS).state
    assert (state.seen, state.seen_at, state.phase_since, state.resolved_at) == (
        None, later, later, later,
    )  # fmt: skip
    assert (state.bad, state.critical, state.not_critical, state.healthy) == (None,) * 4
    assert state.reason is Reason.NO_LONGER_EVALUATED


@pytest.mark.parametrize(
    ("metric", "status", "n_total"),
    [("groundedness", Status.BLIND, 7), ("monitor:queue_lag", Status.WARNING, 1_772_366_400_000)],
)
def test_observation_reflects_its_verdict(metric, status, n_total):
    """The monitor has no samples: each of its evaluations is new."""
    found = Observation.of(make_verdict(status, START, metric=metric, n_total=7))
    assert (found.at, found.n_total, found.basis) == (START, n_total, None)
    assert found.blind is (status is Status.BLIND)
    assert found.evidence is (Evidence.UNCERTAIN if status is Status.BLIND else Evidence.WARNING)


def test_monitor_timers_apply_to_monitor_alerts():
    verdict = make_verdict(Status.WARNING, START, metric="monitor:queue_lag")
    own = Timers(
        warning_for_s=600, critical_for_s=300, resolve_after_s=900, repeat_after_s=14_400,
        monitor_for_s=60, monitor_resolve_after_s=0, monitor_certain_for_s=5,
    )  # fmt: skip
    found = timers_for(verdict, own)
    assert (found.warning_for_s, found.resolve_after_s, found.critical_for_s) == (60, 0, 300)
    certain = timers_for(
        make_verdict(Status.WARNING, START, metric="monitor:blind", policy="all_blind"), own
    )
    assert certain.warning_for_s == 5
    assert timers_for(verdict, TIMERS) == TIMERS


@pytest.mark.parametrize(("name", "s"), [("warning_for_s", 600), ("critical_for_s", 300)])
def test_critical_reminders_have_their_own_interval(name, s):
    timers = timers_from(Settings())
    assert getattr(timers, name) == s
    assert timers.repeat_after(Severity.CRITICAL).total_seconds() == timers.repeat_after_s
    for level in (Severity.WARNING, None):
        assert timers.repeat_after(level).total_seconds() == timers.warning_repeat_after_s
