"""The supervisor: starts in order, restarts what dies, stops all, leaves nothing."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from monitor.errors import ServerStartError
from support.waiting import wait_until
from workers.supervise import Service, Supervisor


def service(tmp_path, name, code="import time; time.sleep(60)", **options):
    return Service(
        name=name,
        command=[sys.executable, "-c", code],
        environment=dict(os.environ),
        log_file=tmp_path / f"{name}.log",
        **options,
    )


@pytest.fixture
def told():
    return []


@pytest.fixture
def supervised(told):
    made = []

    def make(*services):
        supervisor = Supervisor(services, listener=lambda name, what: told.append((name, what)))
        made.append(supervisor)
        return supervisor

    yield make
    for supervisor in made:
        supervisor.stop()


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_services_start_in_order_each_when_the_one_before_is_ready(tmp_path, supervised):
    order = []
    services = [
        service(tmp_path, name, wait_until_ready=lambda _, name=name: order.append(name))
        for name in ("first", "second")
    ]
    supervised(*services).start()
    assert order == ["first", "second"]


def test_services_that_do_not_need_each_other_start_together(tmp_path, supervised, told):
    """Both are under way before one is waited for; what follows waits for both."""
    supervisor, seen = None, []
    services = [
        service(
            tmp_path, name, beside_next=name != "last",
            wait_until_ready=lambda _: seen.append(len(supervisor.pids)),
        )
        for name in ("worker", "scheduler", "last")
    ]  # fmt: skip
    supervisor = supervised(*services)
    supervisor.start()
    assert seen == [3, 3, 3]
    assert told == [(name, "ready") for name in ("worker", "scheduler", "last")]


def test_readiness_message_includes_a_remark(tmp_path, supervised, told):
    supervised(service(tmp_path, "a", wait_until_ready=lambda _: "but idle")).start()
    assert told == [("a", "ready; but idle")]


def test_dead_service_is_restarted(tmp_path, supervised, told):
    supervisor = supervised(service(tmp_path, "a"))
    supervisor.start()
    before = supervisor.pids["a"]
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: supervisor.check() or ("a", "restarted") in told)
    assert supervisor.pids["a"] != before
    assert told[1] == ("a", "ended with code -9; restart in 0.5 s")


def test_restart_pauses_grow_for_a_crashing_service(tmp_path, supervised, told):
    supervisor = supervised(service(tmp_path, "a", code="raise SystemExit(7)"))
    supervisor.start()
    wait_until(lambda: supervisor.check() or sum("ended" in what for _, what in told) == 3)
    pauses = [what.split()[-2] for _, what in told if "ended" in what]
    assert pauses == ["0.5", "1.0", "2.0"]


def test_service_that_never_becomes_ready_stops_the_others(tmp_path, supervised):
    def fail(_):
        raise ServerStartError("no")

    supervisor = supervised(
        service(tmp_path, "good"), service(tmp_path, "bad", wait_until_ready=fail)
    )
    seen = []
    stop = supervisor.stop
    supervisor.stop = lambda: (seen.extend(supervisor.pids.values()), stop())
    with pytest.raises(ServerStartError):
        supervisor.start()
    assert len(seen) == 2
    assert not any(is_alive(pid) for pid in seen)


def test_service_that_ignores_sigterm_is_killed_with_its_children(tmp_path, supervised):
    code = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\n"
        "time.sleep(60)\n"
    )
    supervisor = supervised(service(tmp_path, "stubborn", code=code, stop_timeout_s=0.3))
    supervisor.start()
    pid_file = tmp_path / "child"
    wait_until(lambda: pid_file.exists() and pid_file.read_text())
    child = int(pid_file.read_text())
    parent = supervisor.pids["stubborn"]
    supervisor.stop()
    wait_until(lambda: not is_alive(parent) and not is_running(child))


def test_large_log_is_rotated(tmp_path, supervised):
    log = tmp_path / "a.log"
    log.write_bytes(b"x" * 10_000_001)
    supervised(service(tmp_path, "a")).start()
    assert (tmp_path / "a.log.1").stat().st_size == 10_000_001
    assert log.stat().st_size < 1_000


def test_supervision_ends_on_request(tmp_path, supervised):
    supervisor = supervised(service(tmp_path, "a"))
    supervisor.start()
    stop = threading.Event()
    watching = threading.Thread(target=supervisor.watch, args=(stop,))
    watching.start()
    stop.set()
    watching.join(timeout=100)
    assert not watching.is_alive()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux offers that")
def test_services_end_when_the_supervisor_is_killed(tmp_path):
    code = (
        "import os, pathlib, sys, time\n"
        "from workers.supervise import Service, Supervisor\n"
        f"home = pathlib.Path({str(tmp_path)!r})\n"
        "command = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        "a = Service(name='a', command=command, environment=dict(os.environ),"
        " log_file=home / 'a.log')\n"
        "supervisor = Supervisor([a], listener=lambda *_: None)\n"
        "supervisor.start()\n"
        "print(supervisor.pids['a'], flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as process:
        pid = int(process.stdout.readline())
        wait_until(lambda: b"time.sleep" in command_line(pid))
        process.kill()
    wait_until(lambda: not is_running(pid))


def is_running(pid):
    """A zombie that nobody has collected yet does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def command_line(pid):
    """Return the command of a process, which is empty for a moment while it starts."""
    deadline = time.monotonic() + 10
    while not (line := Path(f"/proc/{pid}/cmdline").read_bytes()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return line


FORKING = """
import json, os, pathlib, signal, sys, threading, time
from workers.supervise import Service, Supervisor

home = pathlib.Path(sys.argv[1])
loaded = object()  # stands for what takes long to load

def main():
    number = len(list(home.glob("*.json")))
    seen = {
        "shares": id(loaded), "pid": os.getpid(), "group": os.getpgrp(), "arguments": sys.argv,
        "variables": dict(os.environ), "input": sys.stdin.read(),
        "inherited": os.path.exists(f"/proc/self/fd/{held}"),
        "stops_by_default": signal.getsignal(signal.SIGTERM) is signal.SIG_DFL,
        "title": pathlib.Path("/proc/self/cmdline").read_bytes().decode(),
    }
    print("hello from", os.getpid(), flush=True)
    (home / "new").write_text(json.dumps(seen))
    (home / "new").rename(home / f"{number}.json")
    if number == 2:
        sys.exit("cannot go on")
    time.sleep(250)

def wait(_):
    while not (home / "0.json").exists():
        time.sleep(0.01)

signal.alarm(250)  # should nothing come of it
signal.signal(signal.SIGTERM, lambda *_: None)
held = os.open(home, os.O_RDONLY)
service = Service(
    name="worker", command=[sys.executable, "-c", "import time; time.sleep(250)"], main=main,
    environment={"ONLY": "this"}, log_file=home / "a.log", wait_until_ready=wait,
)
told = []
supervisor = Supervisor([service], listener=lambda _, what: told.append(what))
supervisor.start()
os.kill(supervisor.pids["worker"], signal.SIGKILL)
while not (home / "1.json").exists():
    supervisor.check()
    time.sleep(0.01)
os.kill(supervisor.pids["worker"], signal.SIGTERM)
while not (home / "2.json").exists() or told[-1] == "restarted":
    supervisor.check()
    time.sleep(0.01)
beside = threading.Timer(250, print)
beside.daemon = True
beside.start()
while told[-1] != "restarted":
    supervisor.check()
    time.sleep(0.01)
report = {"pid": os.getpid(), "shares": id(loaded), "last": supervisor.pids["worker"]}
print(json.dumps(report | {"told": told}), flush=True)
time.sleep(250)
"""


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    """
    Run a supervisor with one service that is forked three times and then, beside a thread, started.

    The first fork is killed, the second is asked to stop, the third ends itself.
    """
    home = tmp_path_factory.mktemp("forks")
    with subprocess.Popen(
        [sys.executable, "-c", FORKING, str(home)], stdout=subprocess.PIPE, text=True
    ) as process:
        parent = json.loads(process.stdout.readline())
        parent["last_command"] = command_line(parent["last"])
        process.kill()
    forked = [json.loads((home / f"{number}.json").read_text()) for number in range(3)]
    return parent, forked, (home / "a.log").read_text()


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")


@linux_only
def test_forked_service_inherits_the_loaded_modules(forks):
    parent, forked, _ = forks
    assert {each["shares"] for each in forked} == {parent["shares"]}
    assert len({parent["pid"], *(each["pid"] for each in forked)}) == 4


@linux_only
def test_forked_service_is_isolated_like_a_started_one(forks):
    """Its group, environment, arguments, title, files and signals are its own."""
    _, [first, *_], log = forks
    assert first["group"] == first["pid"]
    assert first["variables"] == {"ONLY": "this"}
    assert first["arguments"] == ["groundwatch", "worker"]
    assert first["title"].rstrip("\0 ") == "groundwatch worker"
    assert first["input"] == ""
    assert not first["inherited"]
    assert first["stops_by_default"]
    assert f"hello from {first['pid']}\n" in log


@linux_only
def test_forked_service_that_ends_is_forked_again(forks):
    parent, _, log = forks
    ends = [what.split(";")[0] for what in parent["told"] if what.startswith("ended")]
    assert ends == ["ended with code -9", "ended with code -15", "ended with code 1"]
    assert "cannot go on" in log


@linux_only
def test_service_is_started_instead_of_forked_when_threads_run(forks):
    parent, _, _ = forks
    assert b"time.sleep(250)" in parent["last_command"]


@linux_only
def test_forked_services_end_when_the_supervisor_is_killed(tmp_path):
    code = FORKING.replace(
        "supervisor.start()",
        "supervisor.start()\nprint(supervisor.pids['worker'], flush=True)\ntime.sleep(60)",
        1,
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        pid = int(process.stdout.readline())
        assert is_running(pid)
        process.kill()
    wait_until(lambda: not is_running(pid))
