"""The documentation is built without a dead link, and its guides work as they are written."""

import gzip
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from monitor.testing.receivers import SlackReceiver
from support.judge_server import JudgeServer

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_docs_site_has_no_dead_link(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "not included in the" not in done.stderr
    assert (tmp_path / "quickstart" / "index.html").exists()


def blocks(page, language):
    return re.findall(
        rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL
    )


@pytest.fixture(scope="module")
def stack(tmp_path_factory, warm_groundwatch):
    """`groundwatch up` in a fresh home, with a Slack and a judge that answer on this machine."""
    folder = tmp_path_factory.mktemp("guides")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GROUNDWATCH_", "OPENAI_"))}
    with SlackReceiver() as slack, JudgeServer() as judge:
        environment = kept | {
            "GROUNDWATCH_HOME": str(folder / "home"),
            "OPENAI_BASE_URL": judge.url,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        up = subprocess.Popen(["groundwatch", "up"], env=environment, cwd=folder,
                              stdout=subprocess.PIPE, text=True)  # fmt: skip
        environment["PATH"] = f"{Path(warm_groundwatch).parent}:{environment['PATH']}"
        try:
            said = list(itertools.takewhile(lambda line: "to stop" not in line, up.stdout))
            # Where the usual port is taken, words follow the address.
            page = next(re.search(r"http://\S+", line)[0] for line in said if "the page" in line)

            def run(script, code=0, **more):
                script = re.sub(r"https://hooks\.slack\.com/\S+", slack.url, script)
                done = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", script], cwd=folder,
                    env=environment | more, capture_output=True, text=True,
                    check=False, timeout=280,
                )  # fmt: skip
                assert code is None or done.returncode == code, done.stdout + done.stderr
                return done

            yield SimpleNamespace(folder=folder, page=page, run=run, slack=slack, judge=judge)
        finally:
            up.send_signal(signal.SIGINT)
            up.communicate(timeout=200)
        assert up.returncode == 0


def test_quick_start_works_as_written(stack):
    page = DOCS / "quickstart.md"
    [program] = blocks(page, "python")
    (stack.folder / "app.py").write_text(program.replace("time.sleep(0.05)", "time.sleep(0.005)"))
    install, start_status, broken, listing, channel, _ = blocks(page, "sh")
    assert "groundwatch up" in install
    send, ask = start_status.splitlines()

    def status(code):
        deadline = time.monotonic() + 150
        while (found := stack.run(ask, None)).returncode != code:
            assert time.monotonic() < deadline, found.stdout
        return found.stdout

    stack.run(send)
    assert "healthy" in status(0)
    stack.run(broken.splitlines()[0])
    assert "CRITICAL" in status(2)
    assert "refund-desk" in stack.run(listing).stdout
    stack.run(channel.replace("groundwatch up", ""))
    assert len(stack.slack.messages) == 1


def test_readme_commands_work_as_written(stack):
    record = {"query": "How long?", "contexts": ["Five days."], "output": "Five days."}
    with gzip.open(stack.folder / "records.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(record) + "\n" for _ in range(40))
    block = next(each for each in blocks(ROOT / "README.md", "sh") if "replay" in each)
    _, start, watch, report, replay = (line.split("#")[0].strip() for line in block.splitlines())
    assert start == "groundwatch up"
    stack.run(replay)
    assert "support-bot" in stack.run(report, None).stdout
    assert watch == "groundwatch status --watch"
    assert "support-bot" in stack.run("groundwatch status", None).stdout


def test_first_alert_guide_works_as_written(stack):
    before = len(stack.slack.messages)
    [channel] = blocks(DOCS / "guides" / "first-alert.md", "sh")
    stack.run(channel + "groundwatch alerts route --app shop --severity critical")
    assert len(stack.slack.messages) == before + 1


def test_judge_guide_works_as_written(stack):
    page = DOCS / "guides" / "add-a-judge.md"
    record = {"query": "How long?", "contexts": ["A refund takes 5 days."], "output": "5 days."}
    (stack.folder / "records.jsonl").write_text(json.dumps(record))
    [settings] = blocks(page, "sh")
    [trial] = re.findall(r"`(groundwatch evaluate [^`]*)`", page.read_text(encoding="utf-8"))
    done = stack.run(settings.replace("groundwatch doctor", "groundwatch doctor || true") + trial,
                     GROUNDWATCH_JUDGE_SHARE="1")  # fmt: skip
    assert "gpt-4.1-mini" in done.stdout
    assert stack.judge.requests


def test_ci_deploy_guide_works_as_written(stack):
    page = DOCS / "guides" / "deploys-from-ci.md"
    by_hand, make_token, send = blocks(page, "sh")
    stack.run(f"python -c {shlex.quote(*blocks(page, 'python'))}")
    assert "smaller prompt" in stack.run(by_hand).stdout
    token = stack.run(make_token).stdout.split()[-1]
    body = shlex.split(send.replace("\\\n", " "))
    sent = httpx.post(
        f"{stack.page.rstrip('/')}/api/v1/deploys",
        headers={"Authorization": f"Bearer {token}"},
        json=json.loads(body[body.index("--json") + 1]),
    )  # fmt: skip
    assert sent.is_success, sent.text
    assert stack.run("groundwatch deploys --list").stdout.count("smaller prompt") == 2


def test_migration_guide_works_as_written(stack):
    record = {"query": "How long?", "contexts": ["Five days."], "output": "Five days."}
    (stack.folder / "records.jsonl").write_text(json.dumps(record))
    [trial] = blocks(DOCS / "guides" / "migrate.md", "sh")
    stack.run(trial)
    assert json.loads((stack.folder / "scored.jsonl").read_text().splitlines()[0])
