"""Silences: what may be asked for, how long each holds, and what is kept of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from alerts.decide import decide
from alerts.routing import RoutingConfig, parse_all
from alerts.silencing import add_silence, expire_silence, preview
from alerts.state import Timers
from alerts.store import silence_named, silences_after
from monitor.errors import SettingsError
from monitor.models.status import Status
from monitor.store.verdicts import save_verdicts
from monitor.testing import make_verdict

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PLAN = RoutingConfig.everyone([])
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ASKED = {"matchers": parse_all(["app=x"]), "ends_at": NOW + HOUR, "author": "ann", "comment": "c"}


def add(connection, **changes):
    asked = ASKED | changes
    return add_silence(connection, asked.pop("matchers"), now=NOW, **asked)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"matchers": ()}, "needs a matcher"),
        ({"author": "  "}, "needs an author and a comment"),
        ({"comment": ""}, "needs an author and a comment"),
        ({"ends_at": NOW}, "end before it begins"),
        ({"starts_at": NOW + 2 * HOUR}, "end before it begins"),
        ({"ends_at": NOW + 30 * DAY + timedelta(seconds=1)}, "30 days at most"),
    ],
)
def test_invalid_silence_is_refused_and_not_stored(connection, wrong, message):
    with pytest.raises(SettingsError, match=message):
        add(connection, **wrong)
    assert silences_after(connection, NOW - DAY) == []


def test_silence_may_last_thirty_days_and_start_later(connection):
    made = add(connection, starts_at=NOW + DAY, ends_at=NOW + 31 * DAY)
    assert silence_named(connection, made.silence_id) == made


def test_long_texts_are_cut(connection):
    made = add(connection, author="a" * 300, comment="c" * 2000)
    kept = silence_named(connection, made.silence_id)
    assert kept == replace(made, author="a" * 200, comment="c" * 1000)


def test_silence_covers_its_alerts_from_its_beginning_until_its_end(connection):
    made = add(connection)
    moments = [NOW - HOUR, NOW, NOW + HOUR - timedelta(seconds=1), NOW + HOUR]
    assert [made.covers({"app": "x"}, at) for at in moments] == [False, True, True, False]
    assert not made.covers({"app": "y"}, NOW)


def test_silence_can_be_ended_once(connection):
    made = add(connection)
    later = NOW + HOUR / 2
    assert [expire_silence(connection, made.silence_id, later) for _ in range(2)] == [True, False]
    assert silence_named(connection, made.silence_id).ends_at == later
    assert silences_after(connection, later) == []


def test_silences_are_listed_in_the_order_in_which_they_end(connection):
    ends = [add(connection, ends_at=NOW + n * HOUR).ends_at for n in (3, 1, 2)]
    assert [each.ends_at for each in silences_after(connection, NOW + HOUR)] == sorted(ends)[1:]


@pytest.fixture
def alerting(connection):
    """Two apps are evaluated; one of them fires."""
    at_once = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=3600)
    verdicts = [
        make_verdict(status, NOW, app=app, metric="g")
        for app, status in (("x", Status.CRITICAL), ("y", Status.HEALTHY))
    ]
    save_verdicts(connection, verdicts, {})
    decide(connection, verdicts, now=NOW, timers=at_once, channels=PLAN)
    return connection


@pytest.mark.parametrize(
    ("matcher", "held", "warning"),
    [
        ("app=x", ["x"], ""),
        ("app=y", [], ""),
        ("app=z", [], "no app or metric matches: check the names"),
        ("metric=g", ["x"], "every alert matches"),
    ],
)
def test_silence_preview_lists_its_alerts_and_warnings(alerting, matcher, held, warning):
    found = preview(alerting, PLAN, parse_all([matcher]))
    assert (found.firing, [alert.app for alert in found.held]) == (1, held)
    assert found.warning == warning


def test_silence_preview_shows_only_permitted_apps(alerting):
    assert preview(alerting, PLAN, parse_all(["metric=g"]), apps={"y"}).firing == 0


def test_silence_preview_has_no_warning_without_evaluations(connection):
    assert preview(connection, PLAN, parse_all(["app=x"])) == (0, [], "")
