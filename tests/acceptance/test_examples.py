"""Each example runs as it stands, and its answer is sampled, scored and stored."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select

from monitor.settings import Settings
from monitor.store.schema import migrate
from monitor.store.tables import evaluations, samples
from workers.context import Components
from workers.supervise import free_port

EXAMPLES = Path(__file__).parents[2] / "examples"
QUESTION = "How long does a refund take?"


@pytest.fixture
def environment(redis_url, tmp_path):
    names = {"REDIS_URL": redis_url, "SAMPLE_RATE": "1", "HOME": str(tmp_path)}
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GROUNDWATCH_")}
    return {**kept, **{f"GROUNDWATCH_{name}": value for name, value in names.items()}}


@contextmanager
def serving(command, url, environment, folder=None):
    """A server that runs until the test is over, and ends in good order."""
    process = subprocess.Popen([sys.executable, "-m", *command], env=environment, cwd=folder)
    try:
        deadline = time.monotonic() + 150
        while not answers(url):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(200) in {0, -signal.SIGTERM}


def answers(url):
    try:
        return httpx.get(url).status_code < 500
    except httpx.TransportError:
        return False


def run(example, environment, **more):
    done = subprocess.run(
        [sys.executable, "app.py", QUESTION], cwd=EXAMPLES / example, env=environment | more,
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def scored(environment, n=1):
    """Score what waits in the queue; return it with the pass or fail of its groundedness."""
    settings = Settings(
        redis_url=environment["GROUNDWATCH_REDIS_URL"], home=environment["GROUNDWATCH_HOME"]
    )
    parts = Components(settings)
    migrate(parts.store)
    deadline = time.monotonic() + 150
    while parts.redis.xlen("groundwatch:samples") < n:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    parts.scoring_run(lambda: True).run(budget_s=20)
    query = (
        select(samples.c.app, samples.c.payload, evaluations.c.passed)
        .join(evaluations, evaluations.c.sample_id == samples.c.sample_id)
        .where(evaluations.c.metric == "groundedness")
        .order_by(samples.c.occurred_at_ms)
    )
    with parts.store.read() as connection:
        rows = [
            (row.app, row.payload["interaction"], row.passed) for row in connection.execute(query)
        ]
    parts.close()
    return rows


@pytest.mark.parametrize(
    ("example", "app"), [("langchain_agent", "refund-agent"), ("llama_index_rag", "refund-index")]
)
def test_example_program_with_a_library_is_scored(example, app, environment):
    assert run(example, environment) == "A refund takes five working days."
    [(name, interaction, passed)] = scored(environment)
    assert (name, passed) == (app, 1)
    assert interaction["query"] == QUESTION
    assert len(interaction["contexts"]) == 2


def test_streamed_answer_is_scored_whole_and_a_broken_one_fails(environment):
    for broken in ({}, {"BROKEN": "1"}):
        port = free_port()
        command = ["uvicorn", "app:app", "--port", str(port), "--log-level", "warning"]
        url = f"http://127.0.0.1:{port}"
        folder = EXAMPLES / "fastapi_streaming"
        with serving(command, f"{url}/docs", environment | broken, folder):
            assert httpx.get(f"{url}/ask", params={"question": QUESTION}).status_code == 200
    rows = scored(environment, n=2)
    assert [(app, passed) for app, _, passed in rows] == [("refund-desk", 1), ("refund-desk", 0)]
    assert rows[0][1]["output"].startswith("A refund takes five working days after")


def test_app_that_only_sends_traces_is_scored(environment):
    url = f"http://127.0.0.1:{(port := free_port())}"
    with serving(
        ["monitor", "otlp", "--port", str(port), "--wait", "0.3"], f"{url}/health", environment
    ):
        run(
            "opentelemetry_only", environment, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{url}/v1/traces"
        )
        [(app, interaction, passed)] = scored(environment)
    assert (app, passed, interaction["query"]) == ("refund-traces", 1, QUESTION)
    assert len(interaction["contexts"]) == 2


def test_custom_metrics_score_a_file(environment, warm_groundwatch):
    done = subprocess.run(
        [warm_groundwatch, "score", "records.jsonl", "--metrics", "no_promises,on_brand"],
        cwd=EXAMPLES / "own_metric", env=environment | {"GROUNDWATCH_METRICS_FILE": "metrics.toml"},
        capture_output=True, text=True, check=True, timeout=280,
    )  # fmt: skip
    found = {
        record["id"]: {e["evaluator_name"]: e["score"] for e in record["evaluations"]}
        for record in map(json.loads, done.stdout.splitlines())
    }
    assert found["calm"] == {"no_promises": 1.0, "on_brand": 1.0}
    assert found["bold"]["no_promises"] == 0.0
    assert found["bold"]["on_brand"] == pytest.approx(0.3)


def steps_of_the_workflow(folder):
    """The commands of the example's workflow that begin with groundwatch."""
    lines = (folder / "gate.yml").read_text(encoding="utf-8").splitlines()
    found = [line.partition("run: ")[2].split() for line in lines if "run: groundwatch " in line]
    return [words[1:] for words in found]


def test_batch_job_is_sampled_and_its_gate_stops_a_broken_release(
    environment, warm_groundwatch, tmp_path
):
    folder = tmp_path / "batch_gate"
    shutil.copytree(EXAMPLES / "batch_gate", folder)

    def ends_with(words, **more):
        return subprocess.run(
            [warm_groundwatch, *words],
            cwd=folder,
            env=environment | more,
            capture_output=True,
            check=False,
            timeout=280,
        ).returncode

    evaluate, gate = steps_of_the_workflow(folder)
    assert ends_with([*evaluate[:-1], "main.json"]) == 0
    assert ends_with([*evaluate, "--app-version", "broken"], BROKEN="1") == 0
    assert ends_with(gate) == 1
    assert "gift" in (folder / "gate.md").read_text(encoding="utf-8")

    subprocess.run(
        [sys.executable, "job.py", "questions.txt"],
        cwd=folder,
        env=environment,
        check=True,
        timeout=200,
    )
    assert [passed for _, _, passed in scored(environment, n=3)] == [1, 1, 1]
