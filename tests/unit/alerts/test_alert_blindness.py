"""A monitor that does not see says so itself, apart from what it says of answers."""

from datetime import UTC, datetime, timedelta

import pytest

from alerts.conditions import BLIND, blindness
from alerts.drill import sample_snapshot
from alerts.message import render
from alerts.model import AlertKey, AlertState, Evidence
from alerts.state import Observation, Timers, step, timers_for, timers_from
from monitor.models.alerting import AlertEvent, Severity
from monitor.models.status import Status
from monitor.settings import Settings
from monitor.testing import make_verdict

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TIMERS = Timers(warning_for_s=600, critical_for_s=300, resolve_after_s=900, repeat_after_s=14_400)


def blind(**changes):
    return make_verdict(Status.BLIND, NOW, reason="the judge fails", **changes)


def test_app_with_one_blind_metric_is_blind():
    healthy = make_verdict(Status.HEALTHY, NOW, metric="a")
    (verdict,) = blindness([healthy, blind(metric="b"), blind(metric="c", n_failed=7)])
    assert AlertKey.of(verdict) == AlertKey("support-bot", BLIND, "*", 3600)
    assert (verdict.status, verdict.n_failed) == (Status.WARNING, 7)
    assert verdict.reason == "b: the judge fails (and 1 more like it)"


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.BLIND])
def test_monitor_is_healthy_when_nothing_is_blind(status):
    (verdict,) = blindness([make_verdict(status, NOW)])
    assert Observation.of(verdict).evidence is Evidence.HEALTHY


def test_every_app_has_its_own_blindness_verdict():
    found = blindness([blind(app="a"), make_verdict(Status.HEALTHY, NOW, app="b")])
    assert {verdict.app: verdict.status for verdict in found} == {
        "a": Status.WARNING,
        "b": Status.HEALTHY,
    }


def test_blindness_fires_after_the_warning_timer_without_new_samples():
    state, events = AlertState(key=AlertKey("support-bot", BLIND, "*", 3600)), []
    for minute in range(11):
        at = NOW + timedelta(minutes=minute)
        (verdict,) = blindness([make_verdict(Status.BLIND, at, n_total=5)])
        decision = step(state, Observation.of(verdict), at, TIMERS)
        state = decision.state
        events.append(decision.event)
    assert events == [None] * 10 + [AlertEvent.FIRED]
    assert state.level is Severity.WARNING


@pytest.mark.parametrize(
    ("others", "hold_s"), [(Status.BLIND, 90), (Status.HEALTHY, 600)], ids=["all", "one"]
)
def test_wholly_blind_app_alerts_sooner(others, hold_s):
    timers = timers_from(Settings())
    (verdict,) = blindness([blind(metric="a"), make_verdict(others, NOW, metric="b")])
    assert timers_for(verdict, timers).warning_for_s == hold_s
    chosen = timers_from(Settings(warning_for_s=1_800))
    assert timers_for(verdict, chosen).warning_for_s == 1_800


@pytest.mark.parametrize("event", [AlertEvent.FIRED, AlertEvent.RESOLVED])
def test_blindness_message_never_mentions_answers(event):
    (verdict,) = blindness([blind()])
    changes = {
        "verdict": verdict,
        "level": Severity.WARNING,
        "peak": Severity.WARNING,
        "samples": (),
    }
    text = render(sample_snapshot(NOW).model_copy(update=changes), {event}).text
    assert "the monitor" in text
    assert "groundedness: the judge fails" in text
    assert not {"pass", "answers", "scores", "healthy"} & set(text.split())


def test_blindness_verdict_takes_its_times_from_the_blind_metrics():
    earlier = NOW - timedelta(hours=2)
    verdicts = [
        make_verdict(Status.HEALTHY, NOW, metric="a", status_since=earlier),
        blind(metric="b", status_since=NOW - timedelta(hours=1)),
        make_verdict(Status.BLIND, NOW - timedelta(seconds=5), metric="c", reason="no key"),
    ]
    (verdict,) = blindness(verdicts)
    assert (verdict.evaluated_at, verdict.since) == (NOW, NOW)
    assert verdict.status_since == NOW - timedelta(hours=1)
    assert (verdict.policy, verdict.n, verdict.point_status) == ("any_blind", 0, Status.WARNING)
    (well,) = blindness(verdicts[:1])
    assert (well.status_since, well.policy) == (NOW, "any_blind")
    assert well.reason == "the monitor sees every metric of this app"
    assert blindness([blind(metric="b")])[0].reason == "b: the judge fails"


@pytest.mark.parametrize("metric", ["monitor:queue_lag", "error_rate"])
def test_metrics_that_are_no_quality_do_not_make_an_app_blind(metric):
    assert blindness([blind(metric=metric)]) == []
    (well,) = blindness([blind(metric=metric), make_verdict(Status.HEALTHY, NOW, metric="a")])
    assert well.status is Status.HEALTHY


def test_windows_of_one_app_have_separate_blindness():
    found = blindness([blind(window_s=60), make_verdict(Status.HEALTHY, NOW, window_s=3600)])
    assert {verdict.window_s: verdict.status for verdict in found} == {
        60: Status.WARNING, 3600: Status.HEALTHY,
    }  # fmt: skip
