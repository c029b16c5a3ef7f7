"""The guide from a failure in production to the next release, run as it stands."""

import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from monitor.cli.app import app
from monitor.store.engine import Store
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.scoring_run import ScoringRules, result_of

NOW = datetime.now(UTC)
pytestmark = pytest.mark.usefixtures("fresh_now")
RULES = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=("release",))
RANDOM = Random(5)
APP = """
FACTS = {
    "How long does a refund take?": "A refund is paid back within five working days.",
    "What does shipping cost?": "Shipping costs four euros in the whole country.",
}

def answer(query):
    return {"output": FACTS[query], "contexts": [FACTS[query]]}

fixed_answer = answer

def guess(query):
    return {"output": "The moon is made of old green cheese.", "contexts": [FACTS[query]]}
"""


def write(store, release, rate, n, **more):
    results = []
    for k in range(n):
        at = NOW - timedelta(minutes=2 + k * 100 / n)
        sample = make_sample(
            make_interaction(app="shop", release=release, **more), sampled_at=at,
            **({"sample_id": "0192c7bad5"} if release == "v10" else {}),
        )  # fmt: skip
        score = 0.9 if RANDOM.random() < rate else 0.2
        results.append(result_of(sample, [make_evaluation(score=score)], RULES, now=NOW))
    with store.write() as connection:
        record(connection, results, now=NOW, bucket_s=60)


@pytest.fixture
def run(sqlite_url, monkeypatch, tmp_path):
    """Commands in a folder with an app, over a store where one answer of v10 failed."""
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", sqlite_url)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "shop.py").write_text(APP)
    (tmp_path / "golden.jsonl").write_text('{"id": "ship", "query": "What does shipping cost?"}\n')
    store = Store(sqlite_url)
    write(store, "v10", 0.0, 1)
    write(store, "v11", 0.97, 300)
    write(store, "v12", 0.7, 300)
    store.close()
    return lambda command: CliRunner().invoke(app, shlex.split(command)[1:])


def test_release_guide_runs_and_each_step_prints_its_result(run, tmp_path):
    page = Path(__file__).parents[2] / "docs" / "guides" / "failure-to-release.md"
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    added, main, fix, gate, compared, live = (run(command) for command in commands)
    assert "which has 2 cases" in added.stdout
    assert (main.exit_code, fix.exit_code, gate.exit_code) == (0, 0, 0)
    assert "keep main: no difference is shown" in compared.stdout
    assert live.exit_code == 1
    assert "groundedness  worse: pass rate 9" in live.stdout


def test_gate_blocks_a_change_that_brings_the_failure_back(run, tmp_path):
    run("groundwatch golden add 0192c7bad5 --critical")
    for name, function in (("main", "answer"), ("broken", "guess")):
        run(f"groundwatch eval golden.jsonl --app shop:{function} --metrics groundedness"
            f" -o {name}.json")  # fmt: skip
    assert run("groundwatch gate broken.json --baseline main.json").exit_code == 1
