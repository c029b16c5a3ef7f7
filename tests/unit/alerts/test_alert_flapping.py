"""An alert that flaps: what people hear of it, and when it is over."""

from datetime import UTC, datetime, timedelta

import pytest

from alerts.model import AlertKey, AlertState, Evidence
from alerts.state import Observation, Timers, close, step
from monitor.models.alerting import AlertEvent

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TIMERS = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=14_400)
LETTERS = {"h": Evidence.HEALTHY, "w": Evidence.WARNING, "c": Evidence.CRITICAL}


class Alert:
    """One key, evaluated every minute; every letter is one evaluation."""

    def __init__(self):
        self.state, self.now = AlertState(key=AlertKey("app", "metric", "*", 60)), START

    def feed(self, letters):
        """Feed evaluations; return the events that people hear of."""
        heard = []
        for letter in letters:
            self.now += timedelta(minutes=1)
            at = int(self.now.timestamp())
            observation = Observation(evidence=LETTERS[letter], at=self.now, n_total=at)
            decision = step(self.state, observation, self.now, TIMERS)
            self.state = decision.state
            silent = {None, AlertEvent.DEESCALATED}
            if decision.event not in silent and not decision.quiet:
                heard.append(decision.event)
        return heard


@pytest.fixture
def flapping():
    alert = Alert()
    alert.feed("wh" * 3 + "w")
    return alert


def test_fourth_firing_in_a_day_is_the_last_that_is_sent():
    alert = Alert()
    assert alert.feed("wh" * 3) == [AlertEvent.FIRED, AlertEvent.RESOLVED] * 3
    assert alert.feed("w") == [AlertEvent.FIRED]
    assert (alert.state.quiet_since, alert.state.quiet_onsets) == (alert.now, 4)
    assert alert.feed("hw" * 50) == []


def test_new_severity_is_sent_while_flapping(flapping):
    assert flapping.feed("hwc") == [AlertEvent.ESCALATED]
    assert flapping.feed("hc" * 20) == []


def test_alert_reports_when_it_is_stable_again(flapping):
    flapping.feed("hw" * 5)
    assert flapping.feed("h" * 480) == []
    assert flapping.feed("h") == [AlertEvent.SETTLED]
    assert (flapping.state.quiet_since, flapping.state.quiet_onsets) == (None, 9)


def test_another_firing_on_the_same_day_is_flapping_at_once(flapping):
    flapping.feed("h" * 482)
    assert flapping.feed("wh" * 10) == [AlertEvent.FIRED]


def test_alert_is_sent_normally_a_day_after_it_was_stable(flapping):
    flapping.feed("h" * (482 + 1440))
    assert flapping.feed("wh") == [AlertEvent.FIRED, AlertEvent.RESOLVED]


def test_repeated_escalation_counts_as_flapping():
    alert = Alert()
    assert len(alert.feed("wc" * 20)) == 5
    assert alert.state.quiet_since is not None


def test_steady_firing_is_sent_again_after_a_day(flapping):
    assert flapping.feed("w" * 1439) == []
    assert flapping.feed("w") == [AlertEvent.REPEATED]
    assert flapping.state.quiet_since is None


def test_alert_closed_while_flapping_is_sent(flapping):
    decision = close(flapping.state, flapping.now + timedelta(days=1), TIMERS)
    assert not decision.quiet
    assert decision.state.quiet_since is None


def test_four_firings_spread_over_days_are_not_flapping():
    alert = Alert()
    assert alert.feed(("wh" + "h" * 600) * 6) == [AlertEvent.FIRED, AlertEvent.RESOLVED] * 6
