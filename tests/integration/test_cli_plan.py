"""``groundwatch plan``: which sample rate finds a fall in time, from a store with traffic."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from monitor.cli.app import app
from monitor.rolling.policies import PolicyChoice, Thresholds
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.lease import acquire
from monitor.store.ledger import HookCounters, absorb
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.evaluate import Evaluator
from workers.scoring_run import ScoringRules, result_of


@pytest.fixture
def run(sqlite_url, monkeypatch):
    """An app of 200 requests an hour, a twentieth of them sampled, of which 94 % pass."""
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", sqlite_url)
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
        store=store, settings=Settings(), thresholds=Thresholds(), recipients=[],
        policies=PolicyChoice.parse("anytime", ""),
    )  # fmt: skip
    evaluator.run(acquire(store, "scheduler", "test", ttl_s=60), now=now)
    store.close()
    return lambda *words: CliRunner().invoke(app, ["plan", "support-bot", *words])


def test_rates_are_compared_and_one_is_proposed(run):
    text = run("--detect", "40 points in 1h").stdout
    assert "200 requests an hour" in text
    assert "5.0 % (now)" in text
    assert "Set GROUNDWATCH_SAMPLE_RATE=" in text


def test_programs_get_delays_and_the_rate(run):
    found = json.loads(run("--detect", "40 points in 1h", "--json").stdout)
    by_rate = {each["sample_rate"]: each for each in found["rates"]}
    assert by_rate[found["sample_rate"]]["median_s"] <= 3_600
    assert all(
        each["median_s"] > 3_600 for rate, each in by_rate.items() if rate < found["sample_rate"]
    )


def test_too_little_traffic_is_said(run):
    assert "too little traffic" in run("--detect", "20 points in 1m").stdout


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--detect", "soon"], "Invalid objective 'soon'"),
        (["--detect", "1 point in 2h"], "stays above the warning threshold"),
        (["relevance"], "no scores of the last day"),
    ],
)
def test_what_cannot_be_planned_says_why(run, words, reason):
    done = run(*words)
    assert done.exit_code != 0
    assert reason in f"{done.output}{done.exception}"
