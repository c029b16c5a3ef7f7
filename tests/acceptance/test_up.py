"""``groundwatch up`` as its users run it: real processes, killed one after the other."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from monitor import Hook
from monitor.queue import names
from monitor.queue.consumer import connect, live_workers
from support.judge_server import JudgeServer
from support.waiting import wait_until

APP = "shop"


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def environment(home):
    keep = {key: value for key, value in os.environ.items() if not key.startswith("GROUNDWATCH_")}
    return keep | {
        "GROUNDWATCH_HOME": str(home),
        "GROUNDWATCH_ABANDONED_AFTER_S": "1",
        "GROUNDWATCH_EVALUATE_EVERY_S": "0.5",
        "GROUNDWATCH_WORKER_PROCESSES": "2",
        "GROUNDWATCH_WEB_PORT": "0",
    }


@pytest.fixture
def command(environment, warm_groundwatch):
    def run(*arguments, code=0):
        done = subprocess.run(
            [warm_groundwatch, *arguments],
            env=environment, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert code in {None, done.returncode}, done.stdout + done.stderr
        return done.stdout

    return run


class Up:
    """A running stack."""

    def __init__(self, environment, home):
        self._environment, self._home = environment, home
        self.process = None
        self.page = ""

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "monitor", "up"],
            env=self._environment, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        for line in self.process.stdout:
            if "the page" in line:
                self.page = line.split()[-1]
            if "to stop" in line:
                return
        raise AssertionError("up ended before it was up")

    def pids(self, name):
        """Find the processes of one service by what they run, and for whom."""
        if name == "redis":
            # A Redis writes its title over its arguments and its environment; the port stays.
            url = (self._home / "redis.url").read_text().strip()
            name, mark = "-server", url.removeprefix("redis://").removesuffix("/0").encode()
        else:
            mark = str(self._home).encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                ours = mark in line + (entry / "environ").read_bytes()
            except OSError:
                continue
            if ours and name.encode() in line:
                found.append(int(entry.name))
        return found

    def kill(self, name):
        pids = self.pids(name)
        assert pids, f"no {name} runs"
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        with self.process.stdout as rest:
            said = rest.read()
        assert self.process.wait(timeout=200) == 0
        return said

    def stop(self):
        if self.process is not None:
            if self.process.poll() is None:
                self.process.terminate()
            self.process.wait(timeout=200)
            self.process.stdout.close()


@pytest.fixture
def up(environment, home):
    stack = Up(environment, home)
    yield stack
    stack.stop()


@pytest.fixture
def records(tmp_path):
    def write(n):
        path = tmp_path / f"{n}.jsonl"
        record = {
            "query": "How long does a refund take?",
            "contexts": ["Refunds are paid back within five working days."],
            "output": "A refund is paid back within five working days.",
        }
        lines = (json.dumps({"id": f"r{i}", **record}) for i in range(n))
        path.write_text("\n".join(lines), encoding="utf-8")
        return str(path)

    return write


def statuses(page):
    items = httpx.get(f"{page}api/v1/metrics", timeout=30).json()["items"]
    return {item["status"] for item in items}


def ledger(command):
    # Whatever the status is: a while after a start there may be too little for one.
    status = json.loads(command("status", "--json", code=None))
    (app,) = (item for item in status["apps"] if item["app"] == APP)
    return app["ledger"]


def adds_up(found):
    ended = sum(sum(found[kind].values()) for kind in ("dropped", "failed", "skipped"))
    assert found["seen"] == found["sampled"] + found["not_sampled"]
    assert found["sampled"] == ended + found["queued"] + found["scored"]
    return found


def wait_for_a_worker(up, home):
    """One that was killed counts as alive for some seconds: wait for the next."""
    deadline = time.monotonic() + 150
    with closing(connect((home / "redis.url").read_text().strip())) as client:
        while time.monotonic() < deadline:
            running = {f"/{pid}" for pid in up.pids("groundwatch worker")}
            alive = live_workers(client, now_s=time.time())
            if any(name.endswith(tuple(running)) for name in alive if running):
                return
            time.sleep(0.1)
    raise AssertionError("no worker came back")


@pytest.mark.timeout(600)  # many processes start, on a machine that may be busy
def test_killing_any_process_loses_and_double_counts_nothing(up, command, home):
    up.start()
    url = (home / "redis.url").read_text().strip()
    hook = Hook(app=APP, sample_rate=1.0, redis_url=url, enabled=True)
    text = "A refund is paid back within five working days."
    for victim in ("groundwatch worker", "redis", "groundwatch scheduler", "groundwatch worker"):
        for number in range(400):
            hook.sample(query="How long does a refund take?", contexts=[text], output=text)
            if number == 200:
                assert hook.flush(100)
                up.kill(victim)
        assert hook.flush(100)
        if victim == "groundwatch worker":
            wait_for_a_worker(up, home)
    hook.close(60)
    with closing(connect(url)) as client:
        wait_until(lambda: client.xlen(names.SAMPLES) == 0)
    # Until the next scheduler has the lease of the one that was killed, the status is unknown.
    wait_until(lambda: statuses(up.page) == {"healthy"})
    wait_until(lambda: not adds_up(ledger(command))["queued"])
    found = ledger(command)
    assert found["scored"] + sum(found["dropped"].values()) == found["sampled"] == 1_600
    assert found["scored"] >= 500
    assert "✗" not in command("doctor", "--reconcile")


def test_up_runs_once_stops_on_one_interrupt_and_keeps_data(
    up, command, records, home, environment
):
    with ThreadPoolExecutor(1) as beside:
        # Nothing is there yet: it waits for the worker of the stack that starts now.
        arguments = ("--app", APP, "--wait", "--worker-within", "150s")
        replayed = beside.submit(command, "replay", records(50), *arguments)
        up.start()
        assert "scored        50" in replayed.result()
    assert APP in httpx.get(up.page).text
    second = subprocess.run(
        [sys.executable, "-m", "monitor", "up"],
        env=environment, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert second.returncode == 3
    assert "already runs on" in second.stderr
    assert "stopped" in up.interrupt()
    services = ("redis", "groundwatch worker", "groundwatch scheduler", "groundwatch web")
    assert not any(up.pids(name) for name in services)
    before = ledger(command)
    assert_private(home)
    up.start()
    command("replay", records(20), "--app", APP, "--wait")
    assert ledger(command)["scored"] == before["scored"] + 20


def assert_private(home):
    """Transcripts are nobody else's business."""
    open_to_others = [path for path in (home, *home.rglob("*")) if path.stat().st_mode & 0o077]
    assert open_to_others == []


def contradicts(item):
    """Whether a status says other than the interval beside it."""
    status, rate = item["status"], item["pass_rate"]
    low, high = rate["lo"], rate["hi"]
    if high is None:
        return status in {"critical", "warning", "healthy"}
    agrees = {"critical": high < 0.7, "warning": 0.7 <= high < 0.85, "healthy": high >= 0.85}
    return not agrees.get(status, True) or not low <= rate["value"] <= high


@pytest.mark.parametrize(
    ("scorer", "seen"), [("local", {"healthy", "critical"}), ("cascade", {"critical"})]
)
def test_status_and_interval_agree_in_every_second(up, environment, home, scorer, seen):
    """Twenty apps whose answers get worse by different parts, read until some are critical."""
    with JudgeServer() as judge:
        environment |= {
            "GROUNDWATCH_WORKER_PROCESSES": "1", "GROUNDWATCH_FALSE_ALARMS_PER_MONTH": "20",
            "GROUNDWATCH_SCORER": scorer, "OPENAI_BASE_URL": judge.url, "OPENAI_API_KEY": "sk-x",
        }  # fmt: skip
        up.start()
        looks, contradictions, statuses, evaluators = watched(up, home, seen)
        up.stop()
    assert contradictions == []
    assert looks >= 100
    assert seen <= statuses
    assert {name.partition("-")[0] for name in evaluators} == {scorer}
    assert bool(judge.requests) == (scorer == "cascade")


def watched(up, home, wanted):
    """Sample answers that get worse until *wanted* statuses came; return what the API said."""
    url = (home / "redis.url").read_text().strip()
    context = "Refunds are paid back within five working days."
    page = up.page.rstrip("/")
    draw, looks, contradictions, statuses, evaluators = random.Random(4), 0, [], set(), set()
    hooks = [Hook(app=f"bot-{i}", sample_rate=1.0, redis_url=url, enabled=True) for i in range(20)]
    began, said = time.monotonic(), 0
    while time.monotonic() < began + 200 and (looks < 100 or not wanted <= statuses):
        second = time.monotonic() - began
        for i, hook in enumerate(hooks):
            good = draw.random() >= (i / 20 if second > 4 else 0.0)
            said_now = context if good else "Penguins cannot fly, but they swim in cold seas."
            hook.sample(query="How long does a refund take?", contexts=[context], output=said_now)
        time.sleep(0.2)
        if second >= said:
            said += 1
            answer = httpx.get(f"{page}/api/v1/metrics", params={"limit": 100}, timeout=100)
            for item in answer.json()["items"]:
                looks += 1
                statuses.add(item["status"])
                evaluators.add(item["evaluator_version"])
                contradictions += [item] if contradicts(item) else []
    for hook in hooks:
        hook.close()
    return looks, contradictions, statuses, evaluators
