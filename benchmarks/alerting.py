"""
What alerts cost the people who get them, and what they survive; figures as a table.

    python benchmarks/alerting.py simulate | ceiling | storm | race | kill [--runs 50]

`simulate`: false alerts a month, and delays, of the rule "value below the threshold" and
of ours. `ceiling`: the most messages in any day, over periodic patterns of evidence.
`storm`: 5,000 alerts that change at once. `kill`: dispatchers killed at seven points.
`race`: three dispatchers and 200 incidents, one dispatcher paused beyond its lease.
"""

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import numpy as np
from common import make_parser, new_store, print_head, print_row

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
STEP_S = 600
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
        months = [
            replay(KEY, _history(seed, 30 * 144, interval=interval), timers).events
            for seed in range(runs)
        ]
        messages = np.mean([len(events) for events in months])
        fired = np.mean([[e for _, e in each].count(AlertEvent.FIRED) for each in months])
        found = [
            drop for seed in range(runs) if (drop := _drop(seed, interval=interval, timers=timers))
        ]
        figures = (messages, fired, *np.median(found, axis=0))
        print_row(name, *(f"{x:.2f}" for x in figures), runs - len(found))


def _drop(seed: int, *, interval: bool, timers: Timers) -> tuple[float, float] | None:
    begin, end = 5 * 144, 5 * 144 + 72
    history = _history(10_000 + seed, end + 144, (begin, end), interval=interval)
    events = replay(KEY, history, timers).events
    began, ended = (START + timedelta(seconds=STEP_S * step) for step in (begin, end))
    fired = [at for at, event in events if event is AlertEvent.FIRED and began < at <= ended]
    over = [at for at, event in events if event is AlertEvent.RESOLVED and at > ended]
    if not fired or not over:
        return None
    return (fired[0] - began).total_seconds() / 3600, (over[0] - ended).total_seconds() / 3600


def _history(
    seed: int, steps: int, drop: tuple[int, int] = (0, 0), *, interval: bool
) -> Iterator[Point]:
    """Draw scored samples, 40 an hour, and judge the last 200 of them every ten minutes."""
    rng = np.random.default_rng(seed)
    sizes = rng.poisson(PER_STEP, steps)
    total = np.concatenate([[0], np.cumsum(sizes)])
    rates = np.full(steps, 0.92)
    rates[slice(*drop)] = 0.75
    passed = np.concatenate([[0], np.cumsum(rng.random(total[-1]) < np.repeat(rates, sizes))])
    for step in range(steps):
        n = min(WINDOW, int(total[step + 1]))
        k = int(passed[total[step + 1]] - passed[total[step + 1] - n])
        value = wilson_interval(k, n).high if interval and n else k / max(n, 1)
        status = Status.WARNING if n and value < LINE else Status.HEALTHY
        at = START + timedelta(seconds=STEP_S * (step + 1))
        yield Point(at, status if n >= WINDOW else Status.INSUFFICIENT_DATA, int(total[step + 1]))


def ceiling() -> None:
    """Look for the pattern of evidence that gets the most messages through in a day."""
    lengths = [1, 2, 6, 12, 36, 144]
    worst: Counter[str] = Counter()
    tried = 0
    for *first, third in itertools.product(lengths, lengths, [1, 24]):
        for letters in ("wh ", "ch ", "wch", "cwh", "hwc", "ch?"):
            long = zip(letters.strip(), (*first, third), strict=False)
            pattern = [STATUSES[letter] for letter, n in long for _ in range(n)]
            name = f"{letters.strip()} {first[0]}/{first[1]}/{third}"
            for timers in (AT_ONCE, OURS):
                tried += 1
                worst[name] = max(worst[name], _most_in_a_day(pattern, timers))
    print(f"{tried:,} patterns; the most messages in any 24 hours: {worst.most_common(1)[0][1]}")
    print("worst:", ", ".join(f"{name}: {n}" for name, n in worst.most_common(5)))


def _most_in_a_day(pattern: list[Status], timers: Timers) -> int:
    history = (
        Point(START + timedelta(seconds=STEP_S * i), pattern[i % len(pattern)], i)
        for i in range(3 * 144)
    )
    times = [at for at, _ in replay(KEY, history, timers).events]
    day = timedelta(days=1)
    return max((sum(at <= other < at + day for other in times) for at in times), default=0)


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


def storm(keys: int = 5_000) -> None:
    """Let many keys change at once, over many apps, then over few."""
    print_head(
        "keys", "apps", "judge", "evaluation s", "CPU s", "messages in an hour", "criticals first"
    )
    for apps, judge in ((keys, ""), (1_000, ""), (50, ""), (1_000, "judge-7")):
        with new_store() as store:
            verdicts = [
                make_verdict(
                    Status.CRITICAL if i % 10 == 0 else Status.WARNING,
                    START,
                    app=f"app-{i % apps}",
                    metric=f"metric-{i // apps}",
                    evaluator_version=judge,
                )
                for i in range(keys)
            ]
            if judge:  # without evidence that it changed, a judge is not a common cause
                for number in range(apps):
                    app, ill = f"app-{number}", {JUDGE_CHANGED: "it changed"}
                    verdicts += verdicts_on(app, ill, [JUDGE_CHANGED], window_s=3600, now=START)
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
        print_row(f"{keys:,}", f"{apps:,}", judge or "-", *times, len(sink.words), ordered)


if __name__ == "__main__":
    parser = make_parser(__doc__, runs=50)
    parser.add_argument("what", choices=["simulate", "ceiling", "storm", "race", "kill"])
    options = parser.parse_args()
    quiet_logs()
    match options.what:
        case "simulate":
            simulate(options.runs)
        case "kill":
            kill_everywhere(options.runs)
        case what:
            {"ceiling": ceiling, "storm": storm, "race": race_everywhere}[what]()
