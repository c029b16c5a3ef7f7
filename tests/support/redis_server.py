"""A real Redis for tests and benchmarks: the server on PATH, else the Valkey of the wheel."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from workers.supervise import DATABASES, command, free_port, wait_until_ready


class RedisServer:
    """A Redis of our own, as a child process; a context manager."""

    def __init__(
        self, folder: Path, *, port: int = 0, durable: bool = True, databases: int = DATABASES
    ) -> None:
        self.port = port or free_port()
        self._folder = folder
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._command = command(folder, self.port, durable=durable, databases=databases)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_until_ready(self.url, self.process)

    def kill(self) -> None:
        """Kill it, as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    @contextmanager
    def losing(self) -> Iterator[None]:
        """Kill it at the end, and undo what it wrote meanwhile, as on a disk that was too slow."""
        [files] = self._folder.glob("*/appendonlydir")
        with tempfile.TemporaryDirectory() as before:
            shutil.copytree(files, before, dirs_exist_ok=True)
            yield
            self.kill()
            shutil.rmtree(files)
            shutil.copytree(before, files)

    def stop(self) -> None:
        """Ask it to save and leave; kill it if it does not within five seconds."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
