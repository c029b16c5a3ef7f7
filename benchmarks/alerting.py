"""
What alerts cost the people who get them, and what they survive; figures as a table.

    python benchmarks/alerting.py ceiling | storm | race | kill [--runs 50]

`ceiling`: the most messages in any day, over periodic patterns of evidence.
`storm`: 5,000 alerts that change at once. `kill`: dispatchers killed at seven points.
`race`: three dispatchers and 200 incidents, one dispatcher paused beyond its lease.
"""

import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from random import Random
from typing import Literal

from common import new_store, print_head, print_row, script

from alerts.backtest import Point, replay
from alerts.channels.base import Channel, ChannelRate, Receipt
from alerts.conditions import JUDGE_CHANGED, verdicts_on
from alerts.decide import decide
from alerts.dispatch import Dispatcher
from alerts.message import Message
from alerts.model import AlertKey
from alerts.routing import Recipient, RoutingConfig
from alerts.state import Timers
from monitor.cli.console import quiet_logs
from monitor.models.status import Status
from monitor.testing import make_verdict
from support.alert_kills import kill_everywhere
from support.alert_races import race_everywhere

START = datetime(2026, 3, 1, tzinfo=UTC)
KEY = AlertKey("app", "metric", "*", 3600)
STEP_S, DAY = 600, 144  # a day has so many steps
KEYS = 5_000
OURS = Timers(
    warning_for_s=600, critical_for_s=300, resolve_after_s=900, repeat_after_s=14_400,
    max_gap_s=3 * STEP_S,
)  # fmt: skip
AT_ONCE = replace(OURS, warning_for_s=0, critical_for_s=0, resolve_after_s=0)
STATUSES = {"w": Status.WARNING, "c": Status.CRITICAL, "h": Status.HEALTHY,
            "?": Status.INSUFFICIENT_DATA}  # fmt: skip


def ceiling(_: int) -> None:
    """Look for the pattern of evidence that gets the most messages through in a day."""
    lengths = [1, 2, 6, 12, 36, 144]
    letters = ("wh", "ch", "wch", "cwh", "hwc", "ch?")
    most: list[tuple[int, str]] = []
    for word, *times, timers in product(letters, lengths, lengths, (1, 24), (AT_ONCE, OURS)):
        pattern = [STATUSES[x] for x, n in zip(word, times, strict=False) for _ in range(n)]
        history = (
            Point(START + timedelta(seconds=STEP_S * i), pattern[i % len(pattern)], i)
            for i in range(3 * DAY)
        )
        sent = [at for at, _ in replay(KEY, history, timers).events]
        days = (bisect_left(sent, at + timedelta(days=1)) - i for i, at in enumerate(sent))
        most.append((max(days, default=0), f"{word} {times}"))
    print(f"{len(most):,} patterns; the most messages in 24 hours, and the pattern: {max(most)}")


class Sink(Channel):
    """Takes everything at once, and remembers in which order."""

    name, addresses, timeout_s = "sink", ("",), 5.0
    rate = ChannelRate(per_minute=1e9, burst=1e9)

    def __init__(self) -> None:
        self.words: list[str] = []

    def send(self, message: Message, delivery_id: str) -> Receipt:
        """Take one."""
        del delivery_id
        self.words.append(message.word)
        return Receipt(answer="taken")


def storm(_: int) -> None:
    """Let 5,000 keys change at once, over many apps, then over few."""
    print_head(
        "keys", "apps", "judge", "evaluation s", "CPU s", "messages in an hour", "criticals first"
    )
    for apps, judge in ((KEYS, ""), (1_000, ""), (50, ""), (1_000, "judge-7")):
        verdicts = [
            make_verdict(
                Status.WARNING if i % 10 else Status.CRITICAL, START,
                app=f"app-{i % apps}", metric=f"metric-{i // apps}", evaluator_version=judge,
            )
            for i in range(KEYS)
        ]  # fmt: skip
        if judge:  # without evidence that it changed, a judge is not a common cause
            for number in range(apps):
                app, ill = f"app-{number}", {JUDGE_CHANGED: "it changed"}
                verdicts += verdicts_on(app, ill, [JUDGE_CHANGED], window_s=3600, now=START)
        with new_store() as store:
            began, began_cpu = time.perf_counter(), time.process_time()
            with store.write() as connection:
                plan = RoutingConfig.everyone([Recipient("sink")])
                decide(connection, verdicts, now=START, timers=AT_ONCE, channels=plan)
            took_s, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
            sink = Sink()
            for minute in range(60):
                now = START + timedelta(minutes=minute)
                Dispatcher(store, {"sink": sink}, Random(1), clock=lambda now=now: now).run_once()
        ordered = sink.words == sorted(sink.words)
        times = f"{took_s:.2f}", f"{cpu_s:.2f}"
        print_row(f"{KEYS:,}", f"{apps:,}", judge or "-", *times, len(sink.words), ordered)


PARTS: dict[str, Callable[[int], None]] = {
    "ceiling": ceiling, "storm": storm, "kill": kill_everywhere, "race": lambda _: race_everywhere()
}  # fmt: skip


@script
def main(what: Literal["ceiling", "storm", "race", "kill"], *, runs: int = 50) -> None:
    """Measure one part."""
    quiet_logs()
    PARTS[what](runs)
