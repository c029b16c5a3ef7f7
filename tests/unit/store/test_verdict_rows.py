"""Verdicts and their changes as rows; what policies remember; scores in the order they came."""

from datetime import UTC, datetime, timedelta

import pytest

from monitor.models import Status
from monitor.models.status import FleetFall
from monitor.store.drift import scores_since
from monitor.store.engine import insert
from monitor.store.tables import streams
from monitor.store.verdicts import (
    apps_with_rising_evidence,
    fleet_falls,
    key_of,
    read_changes,
    read_pools,
    read_states,
    read_steps,
    read_verdicts,
    save_pools,
    save_states,
    save_verdicts,
)
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample, make_verdict
from workers.scoring_run import ScoringRules, result_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def save(connection, *new):
    return save_verdicts(connection, new, read_verdicts(connection))


def test_only_a_first_or_different_status_is_a_change(connection):
    first = make_verdict(Status.HEALTHY, NOW)
    [change] = save(connection, first)
    assert (change.before, change.after, change.verdict) == (None, Status.HEALTHY, first)
    assert change[:5] == (NOW, *key_of(first))
    assert save(connection, make_verdict(Status.HEALTHY, NOW + MINUTE)) == []


def test_newest_verdict_of_each_key_is_read(connection):
    newer = make_verdict(Status.CRITICAL, NOW + MINUTE)
    other = make_verdict(Status.HEALTHY, NOW, app="bot")
    save(connection, make_verdict(Status.HEALTHY, NOW), other)
    save(connection, newer)
    assert read_verdicts(connection) == {key_of(newer): newer, key_of(other): other}
    assert read_verdicts(connection, "bot") == {key_of(other): other}


@pytest.fixture
def changed(connection):
    """Three changes of one app, one of another, of a segment and of another window each."""
    for minutes, status in enumerate((Status.HEALTHY, Status.CRITICAL, Status.WARNING)):
        save(connection, make_verdict(status, NOW + minutes * MINUTE))
    for odd in ({"app": "bot"}, {"segment": "release=v1"}, {"window_s": 60}):
        save(connection, make_verdict(Status.HEALTHY, NOW + 3 * MINUTE, **odd))
    return connection


def test_changes_since_a_time_are_listed_oldest_first(changed):
    found = read_changes(changed, since=NOW + MINUTE, app="support-bot")
    assert [(item.before, item.after) for item in found][:2] == [
        (Status.HEALTHY, Status.CRITICAL),
        (Status.CRITICAL, Status.WARNING),
    ]
    assert found[0].verdict == make_verdict(Status.CRITICAL, NOW + MINUTE)
    assert {item.app for item in read_changes(changed, since=NOW)} == {"support-bot", "bot"}


def test_status_changes_are_read_by_window_and_cursor_without_segments(changed):
    steps = read_steps(changed, since=NOW, window_s=3600)
    assert [(item.app, item.before, item.after) for item in steps] == [
        ("support-bot", None, Status.HEALTHY),
        ("support-bot", Status.HEALTHY, Status.CRITICAL),
        ("support-bot", Status.CRITICAL, Status.WARNING),
        ("bot", None, Status.HEALTHY),
    ]
    assert steps[1].at_s == (NOW + MINUTE).timestamp()
    later = {"since": NOW + MINUTE, "window_s": 3600}
    assert read_steps(changed, **later) == steps[1:]
    assert read_steps(changed, **later, after_id=steps[1].change_id) == steps[2:]


def test_only_requested_stream_states_are_read(connection):
    save_states(connection, {2: {"a": 1}, 3: {"a": 2}}, now=NOW)
    save_states(connection, {3: {"a": 3}}, now=NOW)
    assert read_states(connection) == {2: {"a": 1}, 3: {"a": 3}}
    assert read_states(connection, [3, 4]) == {3: {"a": 3}}
    assert read_states(connection, []) == {}


def test_apps_with_rising_evidence_are_found_by_their_whole_app_streams(connection):
    names = [
        ("shop", "*", "judge-1"),
        ("bot", "*", "judge-1"),
        ("web", "*", "local-1"),
        ("old", "a=b", "judge-1"),
    ]
    rows = [
        {"stream_id": 10 + k, "app": app, "metric": "m", "segment": segment,
         "evaluator_version": version, "n_total": 0, "last_bucket_s": 0, "sum_w": 0, "sum_w2": 0,
         "sum_wy": 0, "past_n": 0, "past_w": 0, "past_w2": 0, "past_wy": 0}
        for k, (app, segment, version) in enumerate(names)
    ]  # fmt: skip
    insert(connection, streams, rows)
    rises = {"rises": [1]}
    save_states(connection, {10: {"rises": []}, 11: rises, 12: rises, 13: rises}, now=NOW)
    assert apps_with_rising_evidence(connection, version_prefix="judge") == {"bot"}


def fall(metric, high):
    return FleetFall(
        metric=metric, evaluator_version="v", status="critical", status_since=NOW, since=NOW,
        pass_rate=0.5, low=0.4, high=high, n=100, fell=("shop",), n_apps=3, cause="judge",
    )  # fmt: skip


def test_pools_not_saved_again_are_deleted(connection):
    save_pools(connection, {("a", "v"): {"": {"at_s": 1}}, ("b", "v"): {}}, {}, now=NOW)
    save_pools(connection, {("b", "v"): {"": {"at_s": 2}}}, {}, now=NOW + MINUTE)
    assert read_pools(connection) == {("b", "v"): {"": {"at_s": 2}}}


def test_old_single_pool_state_is_read_as_the_shared_pool(connection):
    save_pools(connection, {("a", "v"): {"at_s": 1, "x": 2}}, {}, now=NOW)
    assert read_pools(connection) == {("a", "v"): {"": {"at_s": 1, "x": 2}}}


def test_common_falls_of_apps_are_listed_worst_first(connection):
    falls = {(m, "v"): fall(m, high) for m, high in (("a", 0.7), ("c", 0.6), ("b", 0.6))}
    save_pools(connection, {key: {} for key in (*falls, ("d", "v"))}, falls, now=NOW)
    assert [item.metric for item in fleet_falls(connection)] == ["b", "c", "a"]


def test_scores_are_read_in_the_order_in_which_they_came(connection):
    rules = ScoringRules(pass_score=0.7, bucket_s=60)
    for minutes, name, score in ((2, "b", 0.9), (0, "z", 0.9), (1, "c", 0.1), (1, "a", None)):
        at = NOW + minutes * MINUTE
        of = make_sample(
            make_interaction(app="shop"), sampled_at=NOW, sample_id=name, sample_rate=0.5
        )
        said = (
            make_evaluation(score=score, metadata={"k": name})
            if score
            else make_evaluation(
                score=None, status="skipped", metadata={"skipped_reason": "no_query"}
            )
        )
        record(connection, [result_of(of, [said], rules, now=at)], now=at, bucket_s=60)
    found = scores_since(connection, after_ms=int(NOW.timestamp() * 1000))
    [(key, scores)] = found.items()
    assert key[:2] == ("shop", "groundedness")
    assert [(each.sample_id, each.passed) for each in scores] == [("c", False), ("b", True)]
    at_ms = int(NOW.timestamp() * 1000)
    assert scores[0][1:4] == (at_ms + 60_000, at_ms, 0.5)
    assert scores[0].metadata["k"] == "c"
    assert scores_since(connection, after_ms=0, metric="other") == {}
    assert scores_since(connection, after_ms=0, app="bot") == {}
