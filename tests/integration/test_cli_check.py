"""``groundwatch check``: blind pairs from before and after, its answer, and going on later."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from monitor.cli.app import app
from monitor.models import Status
from monitor.store.engine import Store
from monitor.store.labels import all_labels
from monitor.store.verdicts import save_verdicts
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample, make_verdict
from workers.scoring_run import ScoringRules, result_of

NOW = datetime.now(UTC)
pytestmark = pytest.mark.usefixtures("fresh_now")


@pytest.fixture
def bot(sqlite_url, monkeypatch):
    """Thirty samples of each side of an hour ago; the answers say which side they are of."""
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", sqlite_url)
    store, results = Store(sqlite_url), []
    for number in range(60):
        side = "after" if number % 2 else "before"
        it = make_interaction(app="bot", output=f"This is from {side}.")
        at = NOW - timedelta(minutes=10 + number // 2, hours=0 if number % 2 else 1)
        sample = make_sample(it, sampled_at=at)
        rules = ScoringRules(pass_score=0.7, bucket_s=60)
        results.append(result_of(sample, [make_evaluation(target_event_id=it.id)], rules, now=NOW))
    with store.write() as connection:
        record(connection, results, now=NOW, bucket_s=60)
        save_verdicts(connection, [make_verdict(Status.HEALTHY, NOW, app="bot")], {})
    yield sqlite_url
    store.close()


def run(*words, keys=None):
    asked = ["check", "bot", "groundedness", "--since", "1h", *words]
    return CliRunner().invoke(app, asked, input=keys)


def sides(shown):
    return re.findall(r"This is from (before|after)", shown)


def test_check_without_failures_reports_no_change_and_its_resolution(bot):
    done = run(keys="p" * 60)
    assert done.exit_code == 0, done.output
    said = " ".join(done.stdout.split())
    assert "no change seen: 20 of 20 good before, 20 after; a fall of 20 points" in said
    assert set(sides(done.stdout)) == {"before", "after"}


def test_order_of_the_sides_reveals_nothing(bot):
    shown = sides(run(keys="p" * 60).stdout)
    firsts = shown[0::2]
    assert 0 < firsts.count("before") < len(firsts)


def test_clear_decline_is_found_at_the_first_look(bot):
    order = sides(run("--json", keys="q").stdout)
    keys = ""
    while len(keys) < 20:  # learn the side of the next sample, then answer it
        order = sides(run(keys="q").stdout)
        keys += "p" if order[-1] == "before" else "f"
        done = run(keys=keys[-1] + "q")
    assert done.exit_code == 1, done.output
    assert "worse: 10 of 10 good before, 0 after (p 0.000)" in done.stdout


def test_interrupted_check_continues_and_keeps_its_labels(bot):
    done = run("--annotator", "ann", keys="pppq")
    assert done.exit_code == 2
    assert "go on" in done.stdout
    store = Store(bot)
    with store.read() as connection:
        found = list(all_labels(connection))
    store.close()
    assert [(label.labelled_by, label.drawn) for label in found] == [("ann", True)] * 3
    rest = run("--json", keys="p" * 37)
    assert json.loads(rest.stdout[rest.stdout.index("{\n") :])["answer"] == "no change seen"


@pytest.mark.parametrize(
    ("words", "message"),
    [(["bot", "tone", "--since", "1h"], "only 0 pairs"),
     (["bot", "groundedness", "--since", "soon"], "Invalid time"),
     (["shop", "groundedness", "--since", "1h"], "unknown app")],
)  # fmt: skip
def test_error_is_named_and_exits_with_three(bot, words, message):
    done = CliRunner().invoke(app, ["check", *words])
    assert message in f"{done.output} {done.exception}"
    assert getattr(done.exception, "exit_code", done.exit_code) == 3
