"""``groundwatch why``: cause, changes and failure modes of stored samples."""

import json
import re
import sys
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from monitor.cli.app import app
from monitor.models import Status
from monitor.store.engine import Store
from monitor.store.verdicts import save_verdicts
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample, make_verdict
from monitor.testsets.cases import TestSet
from workers.reports import read_faults
from workers.scoring_run import ScoringRules, result_of

TOPICS = ["refund", "delivery", "warranty", "battery", "manual", "price", "weight", "colour"]


@pytest.fixture
def run(sqlite_url, monkeypatch):
    """A shop whose contexts no longer hold the question since an hour ago, with v12."""
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", sqlite_url)
    store, rules = Store(sqlite_url), ScoringRules(pass_score=0.7, bucket_s=60)
    now, results = datetime.now(UTC), []
    for i in range(160):
        late, topic = i >= 80, TOPICS[i % 8]
        held = TOPICS[(i + 3) % 8] if late and i % 2 else topic
        interaction = make_interaction(
            query=f"What about the {topic} of product{i % 40}?",
            contexts=[f"This text is about the {held} of product{(i + 7 * (held != topic)) % 40}."],
            output=f"It lasts like a {'postcard' if held == topic else 'unicorn'}.",
            release="v12" if late else "v11",
        )
        at = now - timedelta(minutes=30 if late else 300, seconds=i)
        evaluation = make_evaluation(score=0.1 if held != topic else 0.9)
        sample = make_sample(interaction, sampled_at=at)
        results.append(result_of(sample, (evaluation,), rules, now=now))
    with store.write() as connection:
        record(connection, results, now=now, bucket_s=60)
        fell = make_verdict(Status.CRITICAL, now, onset=now - timedelta(hours=1))
        save_verdicts(connection, [fell], {})
    store.close()
    return lambda *words: CliRunner().invoke(app, ["why", *words])


def test_cause_and_change_are_named(run):
    text = run("support-bot", "--since", "1h").stdout
    assert "Cause: retrieval (contexts do not hold what is asked)" in text
    assert "Changed: release v12, from 0.0 % to 100.0 % of the samples" in text


def test_current_status_fall_is_explained_by_default(run):
    assert json.loads(run("support-bot", "--json").stdout)["n_before"] == 80


def test_json_output_has_the_same_figures(run):
    found = json.loads(run("support-bot", "--since", "1h", "--json").stdout)
    assert (found["n_before"], found["n_after"], found["n_failed"]) == (80, 80, 40)
    assert found["blame"]["cause"] == "retrieval"
    assert found["components"][0]["value"] == "v12"


def test_why_gives_the_same_answer_as_the_page(run, sqlite_url):
    found = json.loads(run("support-bot", "--json").stdout)
    store, since = Store(sqlite_url), datetime.now(UTC) - timedelta(hours=1)
    page = read_faults(store, "support-bot", "groundedness", since=since)
    store.close()
    assert (found["blame"]["cause"], found["n_before"]) == (page.blame.cause, page.n_before)
    assert [each["change"] for each in found["components"]] == [c.change for c in page.components]


def test_metric_of_a_first_day_is_drawn_from_its_first_score(run):
    text = CliRunner().invoke(app, ["status", "support-bot", "groundedness"]).output
    assert "pass rate, last 5 h " in text


@pytest.mark.parametrize(
    "words", [["status", "support-bot", "groundedness"], ["report"], ["report", "--format", "md"]]
)
def test_worst_samples_are_printed_with_the_id_that_commands_take(run, words, tmp_path):
    text = CliRunner().invoke(app, words).output
    worst = re.search(r"^(?: *|- )0\.10 +([\w-]{36})\b", text, re.MULTILINE)
    assert worst, text
    opened = CliRunner().invoke(app, ["open", worst[1], "--print"])
    assert opened.output.endswith(f"/sample/{worst[1]}\n")
    to = ["--to", str(tmp_path / "golden.jsonl")]
    added = CliRunner().invoke(app, ["golden", "add", worst[1], *to])
    assert added.exit_code == 0, added.output


def test_failure_mode_examples_become_a_test_set(run, tmp_path):
    file = tmp_path / "modes.jsonl"
    assert run("support-bot", "--since", "1h", "--test-set", str(file)).exit_code == 0
    assert all("unicorn" in case.metadata["production"]["output"] for case in TestSet.read(file))


@pytest.mark.parametrize(("since", "found"), [("1h", ":\n"), ("29m", ": none beyond chance")])
def test_failure_modes_say_since_when_they_are(run, since, found):
    text = run("support-bot", "--since", since).stdout
    at = re.search(r"since (.* UTC): ", text)[1]
    assert f"Failure modes since {at}{found}" in text


def test_start_after_the_fall_is_refused(run):
    done = run("support-bot", "--since", "24h", "--before", "1h")
    assert done.exit_code == 2
    assert "--before 1h is not before --since 24h" in done.output


def test_unscored_metric_is_refused_with_the_available_ones(run):
    done = run("support-bot", "nothing")
    assert done.exit_code == 2
    assert "there is groundedness" in " ".join(done.output.replace("│", "").split())


def test_too_few_samples_are_reported(run):
    said = run("support-bot", "--since", "24h").stdout
    assert "Cause: too few samples (0 before, 160 after; 30 needed)" in said


def test_watched_status_is_written_again_at_each_look(run, monkeypatch):
    written = []

    def sleep(_):
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(sys.stdout.buffer.getvalue().decode())  # what has been flushed

    monkeypatch.setattr("monitor.cli.status.time.sleep", sleep)
    CliRunner().invoke(app, ["status", "--watch"], catch_exceptions=False)
    assert [text.count("support-bot  groundedness") for text in written] == [1, 2, 3]
