"""
``groundwatch`` without the second that its imports take: one process has done them, and forks.

`Warm.command` is a program that does what ``groundwatch`` does, with the caller's streams,
environment, folder and exit code, for commands that end soon. What is not of the command but of its
start, as imports and signals, wants a process of its own.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Self

_ENDS_S = 300  #: by then a command that hangs is ended
_SERVER = "import sys; from support.warm import serve; serve(sys.argv[1])"
_CALLER = """
    import json, os, socket, sys
    with socket.socket(socket.AF_UNIX) as way:
        way.connect({address!r})
        told = dict(arguments=sys.argv[1:], environment=dict(os.environ), folder=os.getcwd())
        socket.send_fds(way, [b" "], [0, 1, 2])
        way.sendall(json.dumps(told).encode() + b"\\n")
        code = int(way.makefile().readline() or 70)
    sys.exit(code if code >= 0 else 128 - code)
"""


class Warm:
    """Such a process, and its program in a folder of its own."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="warm")  # addresses may not be long
        self.command = str(Path(self._folder.name) / "groundwatch")

    def __enter__(self) -> Self:
        program, address = Path(self.command), f"{self._folder.name}/socket"
        caller = program.with_suffix(".py")
        caller.write_text(textwrap.dedent(_CALLER).format(address=address), encoding="utf-8")
        line = f'exec {quote(sys.executable)} -ISE {quote(str(caller))} "$@"'
        program.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        program.chmod(0o700)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore::DeprecationWarning", "-c", _SERVER, address],
            stdout=subprocess.PIPE,
            env={
                "PATH": os.environ["PATH"], "OPENBLAS_NUM_THREADS": "1",
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"listening\n"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()
        self._folder.cleanup()


def serve(address: str) -> None:
    """Load every command once, then run each in a fork of its own, until terminated."""
    importlib.import_module("monitor.scoring.judges.openai_judge")
    for module in ("workers.celery", "workers.digest", "alembic.command", "alembic.op"):
        importlib.import_module(module)  # what commands import when they need it
    app = importlib.import_module("monitor.cli.app")
    for command in app.COMMANDS.values():
        importlib.import_module(f"monitor.cli.{command.module}")
    gc.freeze()  # or each fork would spend half a second on tidying up what it shares
    callers: dict[int, socket.socket] = {}  # of the commands that run, by process
    woken, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(address)
        door.listen(64)
        print("listening", flush=True)
        while True:
            ready, _, _ = select.select([door, woken], [], [])
            if woken in ready:
                woken.recv(4096)
                with suppress(ChildProcessError):
                    while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                        with callers.pop(ended[0]) as way, suppress(BrokenPipeError):
                            way.sendall(b"%d\n" % os.waitstatus_to_exitcode(ended[1]))
            if door in ready:
                way, _ = door.accept()
                if (child := os.fork()) == 0:
                    break
                callers[child] = way
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for other in (door, woken, wakes, *callers.values()):
        other.close()
    _run(way)


def _run(way: socket.socket) -> None:
    """Run one command with the caller's streams, environment, folder and arguments."""
    with way:
        _, streams, _, _ = socket.recv_fds(way, 1, 3)
        told = json.loads(way.makefile().readline())
    signal.alarm(_ENDS_S)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(told["folder"])
    os.environ.clear()
    os.environ.update(told["environment"])
    sys.argv = ["groundwatch", *told["arguments"]]
    try:
        importlib.import_module("monitor.cli").main()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            raise
        code = ended.code or 0
    else:
        code = 0
    # All that the end of a program does, but for taking apart what is shared with the server: each
    # page that this touches would be copied.
    threading._shutdown()  # type: ignore[attr-defined]  # which the stubs leave out
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)
