"""``groundwatch plan``: which sample rate finds a fall in time, from a store with traffic."""

import json
import os
from datetime import UTC, datetime, timedelta
from getpass import getuser

import pytest
from typer.testing import CliRunner

from monitor.cli.app import app
from monitor.queue import names
from monitor.queue.consumer import connect
from monitor.report.words import sample_rate_sentence
from monitor.settings import Settings
from monitor.store.engine import Store, acquire
from monitor.store.ledger import HookCounters, absorb
from monitor.store.verdicts import read_sample_rates
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.evaluate import Evaluator
from workers.scoring_run import ScoringRules, result_of
from workers.tuning import LEASE_S, RateTuner


@pytest.fixture
def run(sqlite_url, monkeypatch):
    """An app of 200 requests an hour, a twentieth of them sampled, of which 94 % pass."""
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", sqlite_url)
    monkeypatch.setattr("monitor.rolling.backtesting._FALLS", 20)  # enough for words and order
    store, rules, now = (
        Store(sqlite_url),
        ScoringRules(pass_score=0.7, bucket_s=60),
        datetime.now(UTC),
    )
    results = [
        result_of(
            make_sample(make_interaction(), sampled_at=now - timedelta(seconds=200 * i)),
            [make_evaluation(score=0.1 if i % 17 == 0 else 0.9)],
            rules,
            now=now,
        )
        for i in range(240)
    ]
    counters = HookCounters(
        hook_id="h", app="support-bot", host="h", pid=1, heartbeat_at=now,
        counters={"seen": 4_800, "sampled": 240, "sent": 240},
    )  # fmt: skip
    with store.write() as connection:
        record(connection, results, now=now, bucket_s=60)
        absorb(connection, [counters], bucket_s=60)
    evaluator = Evaluator(
        store=store, settings=Settings(), recipients=[],
    )  # fmt: skip
    evaluator.run(acquire(store, "scheduler", "test", ttl_s=60), now=now)
    store.close()
    return lambda *words: CliRunner().invoke(app, ["plan", "support-bot", *words])


def test_plan_compares_rates_and_proposes_one(run):
    text = run("--detect", "40 points in 1h").stdout
    assert "200 requests an hour" in text
    assert "5.0 % (now)" in text
    assert "Set GROUNDWATCH_SAMPLE_RATE=" in text


def test_json_plan_has_detection_delays_and_the_proposed_rate(run):
    found = json.loads(run("--detect", "40 points in 1h", "--json").stdout)
    by_rate = {each["sample_rate"]: each for each in found["rates"]}
    assert by_rate[found["sample_rate"]]["median_s"] <= 3_600
    assert all(
        each["median_s"] > 3_600 for rate, each in by_rate.items() if rate < found["sample_rate"]
    )


def test_app_and_metric_are_optional_and_the_budget_has_a_period(run):
    done = CliRunner().invoke(
        app, ["plan", "--app", "support-bot", "--detect", "40 points in 1h", "--budget", "1/day"]
    )
    assert "support-bot · groundedness: 94." in done.stdout, done.output
    assert "judge a month" in done.stdout


def test_plan_from_a_budget_names_the_falls_it_finds(run):
    found = json.loads(run("--budget", "20/month", "--json").stdout)
    assert found["sample_rate"] == 1.0
    falls = [each["fall"] for each in found["rates"]]
    assert falls == sorted(falls)
    assert len(falls) > 2


def test_plan_is_applied_and_ended_with_one_command(run, redis_url, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_REDIS_URL", redis_url)
    done = run("--detect", "40 points in 1h", "--apply", "--for", "7d")
    assert "end with --reset" in done.stderr.replace("\n", " ")
    with connect(redis_url) as client:
        assert float(client.get(names.rate("support-bot"))) > 0
        assert run("--reset").exit_code == 0
        assert client.get(names.rate("support-bot")) is None


@pytest.fixture
def tuned(run, redis_url, monkeypatch):
    """The same app after --apply --auto, and a scheduler's rounds."""
    monkeypatch.setenv("GROUNDWATCH_REDIS_URL", redis_url)
    done = run("--detect", "40 points in 1h", "--apply", "--auto")
    assert done.exit_code == 0, done.output
    store, client = Store(os.environ["GROUNDWATCH_DATABASE_URL"]), connect(redis_url)
    tuner = RateTuner(client, store, Settings())
    yield store, client, lambda: tuner.run(acquire(store, "scheduler", "test", ttl_s=60))
    client.close()
    store.close()


def known(store):
    with store.read() as connection:
        return read_sample_rates(connection)["support-bot"]


def test_tuned_rate_follows_the_evidence_and_is_shown(run, tuned):
    store, client, tune = tuned
    planned = float(client.get(names.rate("support-bot")))
    assert tune() == 1
    asked = float(client.get(names.rate("support-bot")))
    assert asked == pytest.approx(min(1, 2 * planned))  # it is young
    said = f"{run('--detect', '40 points in 1h').stdout}"
    assert f"evidence is young (follows the evidence, switched on by {getuser()}" in said
    shown = CliRunner().invoke(app, ["status", "support-bot"]).stdout
    assert "evidence is young" in " ".join(shown.split())
    assert known(store)[0].own == 1.0  # of the samples


def test_tuned_rate_ends_without_a_scheduler(tuned):
    store, client, tune = tuned
    tune()
    assert 0 < client.ttl(names.rate("support-bot")) <= LEASE_S
    asked, _ = known(store)
    assert asked.is_in_force(asked.until - timedelta(seconds=1))
    assert "(the app's own)" in sample_rate_sentence(asked, asked.until)


def test_rate_reset_by_a_person_is_no_longer_tuned(run, tuned):
    store, client, tune = tuned
    assert run("--reset").exit_code == 0
    assert tune() == 0
    assert client.get(names.rate("support-bot")) is None
    assert f"reset by {getuser()}" in sample_rate_sentence(known(store)[0], datetime.now(UTC))


def test_tuning_round_keeps_a_rate_that_a_person_set_meanwhile(run, tuned, monkeypatch):
    store, client, tune = tuned
    decide = RateTuner._decide

    def overtaken(self, *args):
        run("--detect", "40 points in 1h", "--reset")
        return decide(self, *args)

    monkeypatch.setattr(RateTuner, "_decide", overtaken)
    tune()
    assert client.get(names.rate("support-bot")) is None
    assert known(store)[1] is None


def test_without_apply_nothing_is_tuned(run):
    assert "--auto changes the rate: add --apply" in run("--auto").output


def test_too_little_traffic_is_reported(run):
    assert "too little traffic" in run("--detect", "20 points in 1m").stdout


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--detect", "soon"], "Invalid objective 'soon'"),
        (["--budget", "much"], "Invalid budget 'much': expected 20/month"),
        (["--detect", "1 point in 2h"], "stays above the warning threshold"),
        (["relevance"], "no scores of the last day"),
    ],
)
def test_plan_that_cannot_be_made_says_why(run, words, reason):
    done = run(*words)
    assert done.exit_code != 0
    assert reason in f"{done.output}{done.exception}"
