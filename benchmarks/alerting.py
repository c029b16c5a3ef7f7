"""
What alerts cost the people who get them, and what they survive; figures as a table.

    python benchmarks/alerting.py simulate | ceiling | storm | race | kill [--runs 50]

`simulate`: false alerts a month, and delays, of the rule "value below the threshold" and
of ours. `ceiling`: the most messages in any day, over periodic patterns of evidence.
`storm`: 5,000 alerts that change at once. `kill`: dispatchers killed at seven points.
`race`: three dispatchers and 200 incidents, one dispatcher paused beyond its lease.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from random import Random
from typing import Literal

import numpy as np
from common import new_store, print_head, print_row, script
from numpy.typing import NDArray

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
from monitor.models.alerting import AlertEvent
from monitor.models.status import Status
from monitor.stats.intervals import wilson_interval
from monitor.testing import make_verdict
from support.alert_kills import kill_everywhere
from support.alert_races import race_everywhere

START = datetime(2026, 3, 1, tzinfo=UTC)
KEY = AlertKey("app", "metric", "*", 3600)
STEP_S, DAY = 600, 144  # a day has so many steps
BEGIN, END = 5 * DAY, 5 * DAY + 72  # of the drop
KEYS = 5_000
OURS = Timers(
    warning_for_s=600, critical_for_s=300, resolve_after_s=900, repeat_after_s=14_400,
    max_gap_s=3 * STEP_S,
)  # fmt: skip
AT_ONCE = replace(OURS, warning_for_s=0, critical_for_s=0, resolve_after_s=0)
STATUSES = {"w": Status.WARNING, "c": Status.CRITICAL, "h": Status.HEALTHY,
            "?": Status.INSUFFICIENT_DATA}  # fmt: skip
WINDOW, LINE, PER_STEP = 200, 0.88, 40 / 6


def simulate(runs: int) -> None:
    """Count false alerts in 30 healthy days, and time a drop from 0.92 to 0.75 for 12 hours."""
    print_head("rule", "messages a month at 0.92", "alerts", "detect h", "resolve h", "missed")
    for name, interval, timers in (
        ("value below the threshold, at once", False, AT_ONCE),
        ("value below, held for 10 min", False, OURS),
        ("interval below, at once", True, AT_ONCE),
        ("interval below, held (ours)", True, OURS),
    ):
        months, drops = [], []
        for seed in range(runs):
            calm = _history(seed, np.full(30 * DAY, 0.92), interval=interval)
            months.append([event for _, event in replay(KEY, calm, timers).events])
            rates = np.full(END + DAY, 0.92)
            rates[BEGIN:END] = 0.75
            history = _history(10_000 + seed, rates, interval=interval)
            events = replay(KEY, history, timers).events
            began, ended = (START + timedelta(seconds=STEP_S * step) for step in (BEGIN, END))
            fired = [at for at, e in events if e is AlertEvent.FIRED and began < at <= ended]
            over = [at for at, e in events if e is AlertEvent.RESOLVED and at > ended]
            if fired and over:
                drops.append([(fired[0] - began), (over[0] - ended)])
        messages = np.mean([len(events) for events in months])
        alerts = np.mean([events.count(AlertEvent.FIRED) for events in months])
        hours = np.median(np.array(drops) / timedelta(hours=1), axis=0)
        print_row(name, *(f"{x:.2f}" for x in (messages, alerts, *hours)), runs - len(drops))


def _history(seed: int, rates: NDArray[np.float64], *, interval: bool) -> Iterator[Point]:
    """Draw scored samples, 40 an hour, and judge the last 200 of them every ten minutes."""
    rng = np.random.default_rng(seed)
    sizes = rng.poisson(PER_STEP, rates.size)
    total = np.r_[0, np.cumsum(sizes)]
    passed = np.r_[0, np.cumsum(rng.random(total[-1]) < np.repeat(rates, sizes))]
    for step, seen in enumerate(total[1:].tolist(), 1):
        n = min(WINDOW, seen)
        k = int(passed[seen] - passed[seen - n])
        value = wilson_interval(k, n).high if interval and n else k / max(n, 1)
        status = Status.WARNING if n and value < LINE else Status.HEALTHY
        at = START + timedelta(seconds=STEP_S * step)
        yield Point(at, status if n >= WINDOW else Status.INSUFFICIENT_DATA, seen)


def ceiling(_: int) -> None:
    """Look for the pattern of evidence that gets the most messages through in a day."""
    lengths = [1, 2, 6, 12, 36, 144]
    worst: Counter[str] = Counter()
    tried = 0
    for letters, first, second, third in product(
        ("wh", "ch", "wch", "cwh", "hwc", "ch?"), lengths, lengths, (1, 24)
    ):
        long = zip(letters, (first, second, third), strict=False)
        pattern = [STATUSES[letter] for letter, n in long for _ in range(n)]
        for timers in (AT_ONCE, OURS):
            tried += 1
            history = (
                Point(START + timedelta(seconds=STEP_S * i), pattern[i % len(pattern)], i)
                for i in range(3 * DAY)
            )
            times = [at for at, _ in replay(KEY, history, timers).events]
            most = max((bisect_left(times, at + timedelta(days=1)) - i
                        for i, at in enumerate(times)), default=0)  # fmt: skip
            name = f"{letters} {first}/{second}/{third}"
            worst[name] = max(worst[name], most)
    print(f"{tried:,} patterns; the most messages in any 24 hours: {worst.most_common(1)[0][1]}")
    print("worst:", ", ".join(f"{name}: {n}" for name, n in worst.most_common(5)))


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
    "simulate": simulate, "ceiling": ceiling, "storm": storm, "kill": kill_everywhere,
    "race": lambda _: race_everywhere(),
}  # fmt: skip


@script
def main(what: Literal["simulate", "ceiling", "storm", "race", "kill"], *, runs: int = 50) -> None:
    """Measure one part."""
    quiet_logs()
    PARTS[what](runs)
