"""
The parts run separately, as on many machines: external Redis, PostgreSQL, an LLM judge.

``celery -A workers worker`` and ``groundwatch scheduler``, each started by hand; the
judge is a real HTTP server that speaks the protocol.
"""

import json
import os
import signal
import subprocess
import sys

import pytest

from support.judge_server import JudgeServer
from support.receivers import SlackReceiver

APP = "shop"
PASSAGE = "Refunds are paid back to the original card within five working days."
GOOD = "Refunds are paid back to the original card within five working days."
BAD = "Koalas inspect every parcel beneath glowing lighthouse staircases."


@pytest.fixture(scope="module")
def servers():
    with JudgeServer() as judge, SlackReceiver() as slack:
        yield judge, slack


@pytest.fixture
def environment(redis_url, postgres_url, servers, tmp_path):
    judge, slack = servers
    keep = {key: value for key, value in os.environ.items() if not key.startswith("GROUNDWATCH_")}
    return keep | {
        "GROUNDWATCH_HOME": str(tmp_path / "home"),
        "GROUNDWATCH_REDIS_URL": redis_url,
        "GROUNDWATCH_DATABASE_URL": postgres_url,
        "GROUNDWATCH_SCORER": "judge",
        "GROUNDWATCH_JUDGE_MODEL": "gpt-4o-mini",
        "GROUNDWATCH_SLACK_WEBHOOK_URL": slack.url,
        "GROUNDWATCH_METRICS": "groundedness",
        "GROUNDWATCH_EVALUATE_EVERY_S": "0.5",
        "GROUNDWATCH_CRITICAL_FOR_S": "0",
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_BASE_URL": judge.url,
    }


@pytest.fixture
def parts(environment):
    commands = {
        "worker": ["celery", "-A", "workers", "worker", "-c", "1", "-l", "WARNING"],
        "scheduler": ["monitor", "scheduler"],
    }
    running = {
        name: subprocess.Popen(
            [sys.executable, "-m", *command],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for name, command in commands.items()
    }  # fmt: skip
    yield running
    for process in running.values():
        process.send_signal(signal.SIGTERM)
    for process in running.values():
        process.communicate(timeout=200)


@pytest.fixture
def run(environment, warm_groundwatch):
    return lambda *arguments: subprocess.run(
        [warm_groundwatch, *arguments],
        env=environment, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


def replay(run, folder, output, n):
    path = folder / "records.jsonl"
    record = {"query": "How are refunds paid?", "contexts": [PASSAGE], "output": output}
    path.write_text("\n".join(json.dumps({"id": f"r{i}", **record}) for i in range(n)))
    done = run("replay", str(path), "--app", APP, "--wait", "--worker-within", "60s")
    assert done.returncode == 0, done.stderr


def test_separately_started_processes_work_together(run, parts, servers, tmp_path):
    judge, slack = servers
    replay(run, tmp_path, GOOD, 40)
    good = json.loads(run("status", "--json").stdout)
    (metric,) = good["apps"][0]["metrics"]
    assert metric["verdict"]["evaluator_version"].startswith("judge-gpt-4o-mini")
    assert (metric["verdict"]["status"], metric["verdict"]["n"]) == ("healthy", 40)
    assert metric["verdict"]["cost_usd"] > 0
    assert len(judge.requests) == 40
    replay(run, tmp_path, BAD, 120)
    slack.wait_for(1, timeout_s=30)
    assert "CRITICAL" in json.dumps(slack.messages[0])
    assert run("status").returncode == 2
    for process in parts.values():
        process.send_signal(signal.SIGTERM)
    said = {name: process.communicate(timeout=200)[1] for name, process in parts.items()}
    assert not any(slack.url in text or "sk-test" in text for text in said.values())
