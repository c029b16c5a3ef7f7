"""Old samples judged again by a real endpoint: whose a change is, and what alerts see meanwhile."""

import json
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from sqlalchemy import func, select
from typer.testing import CliRunner

from monitor.cli.app import app as cli
from monitor.models import Status
from monitor.rolling.tallies import stream_key
from monitor.settings import Settings
from monitor.stats.judge_shift import Cause
from monitor.store.agreement import read_attributions
from monitor.store.engine import acquire
from monitor.store.tables import rejudged
from monitor.store.verdicts import read_verdicts, save_verdicts
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample, make_verdict
from support.judge_server import JudgeServer
from workers.judge_recheck import JudgeRecheck, hold_for_judge
from workers.scoring_run import ScoringRules, result_of
from workers.self_monitoring import judge_sentences

NOW = datetime.now(UTC)
pytestmark = pytest.mark.usefixtures("fresh_now")
VERSION = stream_key("bot", make_evaluation(), pass_score=0.7).evaluator_version
GOOD = "A refund is paid back to your card within five working days."
BAD = "Wire four ducats to the lighthouse keeper of Genoa before Easter."


@pytest.fixture
def server():
    with JudgeServer() as running:
        yield running


@pytest.fixture
def settings(server, store):
    url = store.engine.url.render_as_string(hide_password=False)
    return Settings.model_validate({
        "database_url": url, "scorer": "judge", "openai_base_url": server.url,
        "openai_api_key": "sk-test", "metrics": ("groundedness",),
    })  # fmt: skip


def put(store, n, *, output, passed, ago):
    """Store samples with a first verdict, whatever the judge says of them now."""
    rules, results = ScoringRules(pass_score=0.7, bucket_s=60), []
    for number in range(n):
        it = make_interaction(app="bot", output=output)
        sample = make_sample(it, sampled_at=NOW - ago - timedelta(seconds=number))
        found = make_evaluation(target_event_id=it.id, score=0.95 if passed else 0.05)
        results.append(result_of(sample, [found], rules, now=NOW))
    with store.write() as connection:
        record(connection, results, now=NOW, bucket_s=60)


def turn_critical(store):
    verdict = make_verdict(
        Status.CRITICAL, NOW, app="bot", evaluator_version=VERSION, status_since=NOW,
        onset=NOW - timedelta(minutes=30),
    )  # fmt: skip
    with store.write() as connection:
        save_verdicts(connection, [verdict], {})


def recheck(store, settings):
    lease = acquire(store, "scheduler", "test", ttl_s=600)
    JudgeRecheck(store, settings, None, Random(1)).run(lease)
    with store.read() as connection:
        seen = hold_for_judge(connection, list(read_verdicts(connection).values()), NOW)
        found = read_attributions(connection)
        return seen, next(iter(found.values()), None), judge_sentences(connection, NOW)


def test_alert_waits_for_old_samples_to_be_judged_again(store):
    turn_critical(store)
    with store.read() as connection:
        (seen,) = hold_for_judge(connection, list(read_verdicts(connection).values()), NOW)
        later = NOW + timedelta(minutes=11)
        (unheld,) = hold_for_judge(connection, list(read_verdicts(connection).values()), later)
    assert seen.status is Status.INSUFFICIENT_DATA
    assert "to see whether the judge changed" in seen.reason
    assert unheld.status is Status.CRITICAL


def test_judge_that_became_stricter_is_named_and_the_app_is_not_blamed(store, settings, server):
    put(store, 60, output=BAD, passed=True, ago=timedelta(hours=3))  # as it saw them once
    put(store, 60, output=BAD, passed=False, ago=timedelta(minutes=5))
    turn_critical(store)
    seen, found, sentences = recheck(store, settings)
    assert (found.cause, found.pairs, found.judge_change) == (Cause.JUDGE, 60, -1.0)
    assert seen[0].status is Status.INSUFFICIENT_DATA
    assert "not the app" in seen[0].reason
    (said,) = sentences.values()
    assert "the judge moved by −100.0 pts on 60 old samples" in said
    assert len(server.requests) == 60


def test_app_that_got_worse_is_blamed_and_its_alert_goes_out(store, settings):
    put(store, 60, output=GOOD, passed=True, ago=timedelta(hours=3))
    put(store, 60, output=BAD, passed=False, ago=timedelta(minutes=5))
    turn_critical(store)
    seen, found, sentences = recheck(store, settings)
    assert (found.cause, found.judge_change, found.app_change) == (Cause.APP, 0.0, -1.0)
    assert seen[0].status is Status.CRITICAL
    assert sentences == {}


def test_alerts_are_sent_when_the_judge_is_unavailable_for_a_recheck(store, settings, server):
    server.always = "503"
    put(store, 60, output=GOOD, passed=True, ago=timedelta(hours=3))
    put(store, 60, output=BAD, passed=False, ago=timedelta(minutes=5))
    turn_critical(store)
    fast = settings.judge_limits.model_copy(update={"judge_attempts": 1})
    seen, found, _ = recheck(store, settings.model_copy(update={"judge_limits": fast}))
    assert (found.cause, found.pairs) == (Cause.UNCLEAR, 0)
    assert seen[0].status is Status.CRITICAL


def test_recheck_uses_one_call_in_twenty_and_each_sample_once(store, settings, server):
    put(store, 100, output=GOOD, passed=True, ago=timedelta(hours=3))
    for _ in range(4):
        recheck(store, settings)
    with store.read() as connection:
        assert connection.execute(select(func.count()).select_from(rejudged)).scalar_one() == 5
    assert len(server.requests) == 5


def test_judge_recheck_bypasses_the_verdict_cache_on_both_sides(store, server, monkeypatch):
    put(store, 12, output=GOOD, passed=True, ago=timedelta(hours=3))
    put(store, 12, output=BAD, passed=True, ago=timedelta(minutes=5))
    for name, value in {
        "DATABASE_URL": store.engine.url.render_as_string(hide_password=False),
        "SCORER": "judge",
    }.items():
        monkeypatch.setenv(f"GROUNDWATCH_{name}", value)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with store.write() as connection:
        save_verdicts(connection, [make_verdict(Status.HEALTHY, NOW, app="bot")], {})
    done = CliRunner().invoke(
        cli, ["check", "bot", "groundedness", "--since", "1h", "--judge", "--json"]
    )
    said = json.loads(done.stdout)
    assert (said["answer"], said["good_before"], said["good_after"]) == ("worse", 10, 0)
    assert done.exit_code == 1
    assert len(server.requests) == 20
