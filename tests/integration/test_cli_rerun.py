"""``groundwatch rerun``: a shop of two retrievers; the new one no longer finds the right text."""

import json
import sys
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

import monitor
from monitor.cli.app import app
from monitor.store.alert_tables import incidents
from monitor.store.engine import Store
from monitor.store.tables import samples
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from monitor.testsets.golden import read_changes
from workers.scoring_run import ScoringRules, result_of

TOPICS = ["refund", "delivery", "warranty", "battery", "manual", "price", "weight", "colour"]
SHOP = """
import groundwatch

TEXTS = {topic: f"The {topic} of this product takes five working days." for topic in TOPICS}

def right(question):
    return [text for topic, text in TEXTS.items() if topic in question]

def wrong(question):
    return ["Our office is closed on Sundays and holidays."]

@groundwatch.replayable
def reply(question, retriever="v12", tone="plain"):
    groundwatch.sample(query=question, output="asked again")
    if "broken" in tone:
        raise ValueError(tone)
    passages = {"v11": right, "v12": wrong}[retriever](question)
    topic = next(topic for topic in TOPICS if topic in question)
    return {"output": f"The {topic} of this product takes five working days.", "contexts": passages}
"""


@pytest.fixture
def rerun(sqlite_url, tmp_path, monkeypatch):
    """An incident with forty failing questions, and the shop's module in the current directory."""
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", sqlite_url)
    monkeypatch.setenv("GROUNDWATCH_ENABLED", "true")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "toy_shop", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "toy_shop.py").write_text(f"TOPICS = {TOPICS}\n{SHOP}", encoding="utf-8")
    store, now = Store(sqlite_url), datetime.now(UTC)
    results = [
        result_of(
            make_sample(
                make_interaction(query=f"What about the {TOPICS[i % 8]} of product {i}?"),
                sampled_at=now - timedelta(minutes=5, seconds=i),
            ),
            [make_evaluation(score=0.1)], ScoringRules(pass_score=0.7, bucket_s=60), now=now,
        )
        for i in range(40)
    ]  # fmt: skip
    with store.write() as connection:
        record(connection, results, now=now, bucket_s=60)
        connection.execute(incidents.insert().values(
            incident_id="4f1c", app="support-bot", metric="groundedness", segment="*",
            window_s=3600, level="critical", peak_level="critical", since=now - timedelta(hours=1),
            opened_at=now, updated_at=now, sequence=1,
        ))  # fmt: skip
    yield lambda *words: CliRunner().invoke(app, ["rerun", "4f", "--reply", "toy_shop", *words])
    with store.read() as connection:  # what was asked again is no traffic
        assert len(connection.execute(samples.select()).all()) == 40
    store.close()


def test_rerun_names_the_retriever_as_cause_and_not_the_tone(rerun):
    done = rerun("--with", "retriever=v11", "--with", "tone=kind", "--json")
    assert done.exit_code == 0, done.output
    found = {each["change"]: each for each in json.loads(done.stdout)["changes"]}
    assert found["retriever=v11"]["answer"] == "explains"
    assert found["tone=kind"]["answer"] == "does not"
    assert found["retriever=v11"]["fixed"] < 20  # it stops once it knows


def test_too_few_questions_are_undecided_and_name_the_missing_number(rerun):
    done = rerun("--with", "retriever=v11", "--most", "2")
    assert done.exit_code == 2
    assert "retriever=v11 is undecided: fixed 2 of 2 questions that failed again" in done.stdout
    assert "would decide it (38 are left, see --most)" in done.stdout


def test_rerun_counts_errors_of_the_app(rerun):
    done = rerun("--with", "tone=broken", "--most", "3")
    assert "no result: 3 (app error: ValueError 3)" in done.output


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--with", "retriever"], "expected component=value"),
        (["--with", "index=b"], "the app has no component 'index': expected retriever, tone"),
        (["--with", "a=b", "--reply", "json"], "has 0 functions for groundwatch.replayable()"),
        (["--with", "a=b", "--reply", "no_such_shop"], "there is no module 'no_such_shop'"),
    ],
)
def test_rerun_that_is_impossible_says_why(rerun, words, reason):
    done = rerun(*words)
    assert done.exit_code != 0
    assert reason in f"{done.output}{done.exception}"


def test_change_value_keeps_later_equals_signs():
    assert read_changes(["prompt=a=b"])[0].value == "a=b"


def test_only_a_function_can_be_registered():
    with pytest.raises(TypeError, match="should be a function"):
        monitor.replayable("reply")
