"""The supervisor: starts in order, restarts what dies, stops all, leaves nothing."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from monitor.errors import ServerStartError
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


def eventually(condition, within_s=10.0):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


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


def test_what_dies_is_restarted(tmp_path, supervised, told):
    supervisor = supervised(service(tmp_path, "a"))
    supervisor.start()
    before = supervisor.pids["a"]
    os.kill(before, signal.SIGKILL)
    eventually(lambda: supervisor.check() or ("a", "restarted") in told)
    assert supervisor.pids["a"] != before
    assert told[1] == ("a", "ended with code -9; restart in 0.5 s")


def test_pauses_grow_for_what_keeps_dying(tmp_path, supervised, told):
    supervisor = supervised(service(tmp_path, "a", code="raise SystemExit(7)"))
    supervisor.start()
    eventually(lambda: supervisor.check() or sum("ended" in what for _, what in told) == 3)
    pauses = [what.split()[-2] for _, what in told if "ended" in what]
    assert pauses == ["0.5", "1.0", "2.0"]


def test_one_that_never_gets_ready_stops_the_others(tmp_path, supervised):
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


def test_what_ignores_the_polite_signal_is_killed_with_its_children(tmp_path, supervised):
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
    eventually(lambda: pid_file.exists() and pid_file.read_text())
    child = int(pid_file.read_text())
    parent = supervisor.pids["stubborn"]
    supervisor.stop()
    eventually(lambda: not is_alive(parent) and not is_running(child))


def test_log_that_has_grown_large_is_put_aside(tmp_path, supervised):
    log = tmp_path / "a.log"
    log.write_bytes(b"x" * 10_000_001)
    supervised(service(tmp_path, "a")).start()
    assert (tmp_path / "a.log.1").stat().st_size == 10_000_001
    assert log.stat().st_size < 1_000


def test_watching_ends_when_told(tmp_path, supervised):
    supervisor = supervised(service(tmp_path, "a"))
    supervisor.start()
    stop = threading.Event()
    watching = threading.Thread(target=supervisor.watch, args=(stop,))
    watching.start()
    stop.set()
    watching.join(timeout=5)
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
        eventually(lambda: b"time.sleep" in command_line(pid))
        process.kill()
    eventually(lambda: not is_running(pid))


def is_running(pid):
    """A zombie that nobody has collected yet does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def command_line(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes()
