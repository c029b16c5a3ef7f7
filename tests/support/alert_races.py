"""Dispatchers in processes of their own that race, one of them paused beyond its lease."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from signal import SIGCONT

from alerts import queries
from alerts.decide import decide
from alerts.routing import Recipient
from alerts.state import Timers
from monitor.models.alerting import DeliveryStatus
from monitor.models.status import Status
from monitor.store.engine import Store
from monitor.store.schema import migrate
from monitor.testing import make_verdict
from support.vendor_receiver import VendorReceiver

AT_ONCE = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=14_400)
STORY = (Status.WARNING, Status.CRITICAL, Status.HEALTHY)
#: Far longer than a message takes, on a machine that has much else to do as well.
LEASE_S = 15.0
#: Where a dispatcher stops: with a message in its hands, or after its bytes have left.
POINTS = ("after_claim", "after_bytes")
#: Dispatches for ever; with a point, it stops itself once on the way.
DISPATCHER = """
import random, signal, sys, time
from pydantic import SecretStr
from alerts import outbox
from alerts.channels.base import ChannelRate
from alerts.channels.programs import WebhookChannel
from alerts.dispatch import Dispatcher
from monitor.store.engine import Store

database, url, lease_s, point = sys.argv[1:]
outbox.MOST_AN_HOUR = 10**9  # every message by itself
times = iter([True])

def pause(at):
    if at == point and next(times, False):
        signal.raise_signal(signal.SIGSTOP)  # this thread stops first, and holds no lock

def pausing(claim):
    def claim_and_pause(*args, **more):
        found = claim(*args, **more)
        if found:
            pause("after_claim")
        return found
    return claim_and_pause

class Pausing(WebhookChannel):
    rate = ChannelRate(per_minute=1e9, burst=1e9)

    def send(self, *message):
        receipt = super().send(*message)
        pause("after_bytes")
        return receipt

outbox.claim = pausing(outbox.claim)
channel = Pausing(SecretStr(url), timeout_s=30, name="webhook", allow_private=True)
channel.timeout_s = float(lease_s) / 3  # a lease is this long; no send is given up for it
dispatcher = Dispatcher(Store(database), {"webhook": channel}, random.Random(), lease_s=0)
while True:
    dispatcher.run_once()
    time.sleep(0.2)  # a database of files has one writer at a time
"""


def race_everywhere(incidents: int = 200, dispatchers: int = 3) -> None:
    """Let dispatchers race, one of them paused at each point, and count what arrived."""
    print("| paused | incidents | arrived | lost | twice | under another id | out of order | s |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for point in POINTS:
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            found = race(f"sqlite:///{Path(folder) / 'race.db'}", point, incidents, dispatchers)
            took_s = time.monotonic() - began
        names = ("arrived", "lost", "twice", "other_id", "out_of_order")
        counts = " | ".join(str(found[name]) for name in names)
        print(f"| {point} | {incidents} | {counts} | {took_s:.0f} |")


def race(
    database: str, point: str, incidents: int, dispatchers: int, lease_s: float = LEASE_S
) -> Counter[str]:
    """
    Begin, worsen and end *incidents* while *dispatchers* send, one of them paused at *point*.

    Counts requests that arrived; incidents whose end did not; requests that came twice,
    and those of them under another id; and requests behind a later one of their incident.
    """
    store = Store(database)
    migrate(store)
    with VendorReceiver("webhook") as receiver:
        paused = _start(database, receiver.url, point, lease_s)
        processes = [paused]
        try:
            _tell(store, STORY[0], incidents)
            _, how = os.waitpid(paused.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(how), how
            until = time.monotonic() + lease_s + 0.5
            others = range(dispatchers - 1)
            processes += [_start(database, receiver.url, "never", lease_s) for _ in others]
            for status in STORY[1:]:
                _wait_until_left(store, at_most=incidents // 10)
                _tell(store, status, incidents)
            time.sleep(max(0.0, until - time.monotonic()))
            # Whoever was paused wakes up while the others send.
            os.kill(paused.pid, SIGCONT)
            _wait_until_left(store, at_most=0)
            time.sleep(0.5)  # a late one would arrive now
        finally:
            for process in processes:
                process.kill()
                process.wait()
        found = _counted(receiver, incidents)
    store.close()
    return found


def _start(database: str, url: str, point: str, lease_s: float) -> subprocess.Popen[bytes]:
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", DISPATCHER, database, url, str(lease_s), point],
        env=environment,
        stdout=subprocess.DEVNULL,
    )


def _tell(store: Store, status: Status, incidents: int) -> None:
    """Decide in parts, so that dispatchers send in between."""
    for begin in range(0, incidents, 20):
        now = datetime.now(UTC)
        apps = range(begin, min(begin + 20, incidents))
        verdicts = [make_verdict(status, now, app=f"app-{number}") for number in apps]
        with store.write() as connection:
            channels = [Recipient("webhook")]
            decide(connection, verdicts, now=now, timers=AT_ONCE, channels=channels)


def _wait_until_left(store: Store, at_most: int, timeout_s: float = 240.0) -> None:
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        with store.read() as connection:
            if queries.outbox_counts(connection)[DeliveryStatus.WAITING] <= at_most:
                return
        time.sleep(0.05)
    raise TimeoutError("messages still wait")


def _counted(receiver: VendorReceiver, incidents: int) -> Counter[str]:
    ids: dict[tuple[str, int], list[str]] = defaultdict(list)
    lanes: dict[str, list[int]] = defaultdict(list)
    over = set()
    for request in receiver.taken:
        data = request.json["data"]
        ids[data["incident_id"], data["sequence"]].append(request.headers["webhook-id"])
        lanes[data["incident_id"]].append(data["sequence"])
        if data["event"] == "resolved":
            over.add(data["incident_id"])
    return Counter(
        arrived=len(receiver.taken),
        lost=incidents - len(over),
        twice=sum(len(found) - 1 for found in ids.values()),
        other_id=sum(len(set(found)) - 1 for found in ids.values()),
        out_of_order=sum(b < a for lane in lanes.values() for a, b in pairwise(lane)),
    )
