"""Dispatchers that are killed with SIGKILL at every point between deciding and finishing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from signal import SIGKILL
from typing import Self

from alerts.decide import decide
from alerts.dispatch import Dispatcher, channels_from, recipients_of
from alerts.state import Timers
from monitor.models.status import Status
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.schema import migrate
from monitor.testing import make_verdict
from support.receivers import MailReceiver, SlackAnswer, SlackReceiver

START = datetime(2026, 3, 1, tzinfo=UTC)
AT_ONCE = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=14_400)
POINTS = (
    "before_claim",
    "after_claim",
    "before_connect",
    "after_bytes",
    "after_answer",
    "before_finish",
    "after_finish",
)
#: Loads everything once; each line is a dispatcher in a fork of its own, which kills itself.
ZYGOTE = """
import gc, json, os, random, signal, sys, time
from datetime import datetime
from alerts import outbox
from alerts.channels.base import Channel
from alerts.dispatch import Dispatcher, channels_from
from monitor.settings import Settings
from monitor.store.engine import Store

def die(*_args, **_more):
    os.kill(os.getpid(), signal.SIGKILL)

def then_die(work):
    def both(*args, **more):
        work(*args, **more)
        die()
    return both

class Deadly(Channel):
    def __init__(self, channel, point):
        self.channel, self.point, self.name = channel, point, channel.name
        self.addresses, self.timeout_s = channel.addresses, channel.timeout_s
        self.rate = channel.rate

    def send(self, *message):
        if self.point == "before_connect":
            die()
        receipt = self.channel.send(*message)
        if self.point == "after_bytes":
            time.sleep(60)  # whoever sees the bytes arrive kills us
        if self.point == "after_answer":
            die()
        return receipt

gc.freeze()
for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
point = job["point"]
if point == "after_claim":
    outbox.claim = then_die(outbox.claim)
if point == "before_finish":
    outbox.finish_sent = die
if point == "after_finish":
    outbox.finish_sent = then_die(outbox.finish_sent)
if point == "before_claim":
    outbox.claim = die
settings = Settings(**job["settings"])
channels = {n: Deadly(c, point) for n, c in channels_from(settings).items()}
clock = lambda: datetime.fromisoformat(job["now"])
Dispatcher(Store(job["database"]), channels, random.Random(1), clock=clock).run_once()
"""


def kill_everywhere(runs: int) -> None:
    """Kill *runs* dispatchers at each point, over HTTP and SMTP, and count what arrived."""
    print("| channel | point | killed | lost | arrived twice | under another id |")
    print("|---|---|---:|---:|---:|---:|")
    with SlackReceiver() as slack, MailReceiver() as mail, Zygote() as zygote:
        for channel in ("slack", "email"):
            for point in POINTS:
                found = _kill_at(point, channel, slack, mail, zygote, runs)
                lost, twice, other = found["lost"], found["twice"], found["other_id"]
                print(f"| {channel} | {point} | {found['killed']} | {lost} | {twice} | {other} |")


class Zygote:
    """Starts dispatchers quickly."""

    def __enter__(self) -> Self:
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", ZYGOTE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def run(self, arrived: Callable[[], object] | None, **job: object) -> int:
        """Run one dispatcher, kill it once something *arrived*; return how it ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        child = self._number()
        if arrived is not None:
            arrived()
            os.kill(child, SIGKILL)
        return self._number()

    def _number(self) -> int:
        """Read the next number; the dispatcher logs in between."""
        assert self._process.stdout is not None
        while True:
            line = self._process.stdout.readline().strip()
            if line.lstrip("-").isdecimal():
                return int(line)


def _kill_at(
    point: str, channel: str, slack: SlackReceiver, mail: MailReceiver, zygote: Zygote, runs: int
) -> Counter[str]:
    wanted = {"slack_webhook_url": slack.url} if channel == "slack" else {}
    if channel == "email":
        wanted = {"smtp_url": mail.url, "email_to": "ann@example.org"}
    settings, found = Settings.model_validate(wanted), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{Path(folder) / 'kill.db'}"
        store = Store(database)
        migrate(store)
        for run in range(runs):
            # Hours apart, or the rest would come as a digest.
            now = START + timedelta(hours=2 * run)
            with store.write() as connection:
                verdict = make_verdict(Status.CRITICAL, now, app=f"app-{run}")
                decide(
                    connection, [verdict], now=now, timers=AT_ONCE,
                    channels=recipients_of(channels_from(settings)),
                )  # fmt: skip
            slack.messages.clear()
            mail.messages.clear()
            if point == "after_bytes" and channel == "slack":
                slack.script(SlackAnswer.HANG)
            job = {"point": point, "database": database, "now": now.isoformat()}
            seen = slack.wait_for if channel == "slack" else mail.wait_for
            arrived = partial(seen, 1) if point == "after_bytes" else None
            found["killed"] += zygote.run(arrived, **job, settings=wanted) == -SIGKILL
            for seconds in (61, 300):
                later = now + timedelta(seconds=seconds)
                _dispatch(store, settings, later)
            found += _arrived(channel, f"[CRITICAL] app-{run} ", slack, mail)
        store.close()
    return found


def _dispatch(store: Store, settings: Settings, now: datetime) -> None:
    rng = Random(1)
    Dispatcher(store, channels_from(settings), rng, clock=lambda: now).run_once()


def _arrived(channel: str, subject: str, slack: SlackReceiver, mail: MailReceiver) -> Counter[str]:
    """Count what came of this one; incidents that nobody evaluates are closed in between."""
    if channel == "slack":
        mine = [m for m in slack.messages if m["text"].startswith(subject)]
        ids = [message["blocks"][-1]["block_id"] for message in mine]
    else:
        ids = [m["Message-ID"] for m in mail.messages if m["Subject"].startswith(subject)]
    return Counter(lost=not ids, twice=len(ids) > 1, other_id=len(set(ids)) > 1)
