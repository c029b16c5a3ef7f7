"""
How large the store gets: per million samples, and over a simulated year with retention.

    python benchmarks/store_size.py [--days 365] [--per-day 200] [--store URL]

A sample has three passages and 2,000 characters in all, two metrics and six dimensions of
segments, as by default. Each simulated day its samples are written, summed and let go of
as the scheduler would, by the ages of the settings.
"""

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from common import count_rows, make_parser, new_store

from monitor.models import Evaluation
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.retention import Retention, free_space, size_bytes
from monitor.store.rollup import compact_inputs, roll_up
from monitor.store.tables import evaluations, samples
from monitor.store.write import Result, record
from monitor.testing import make_interaction, make_sample
from workers.maintenance import ages_from
from workers.scoring_run import ScoringRules, result_of

_WORDS = [
    "refund", "card", "days", "paid", "back", "order", "parcel", "address", "invoice", "account",
    "shipping", "label",
]  # fmt: skip
_APP = "shop"
_BATCH = 50
_MANY = 10_000
_WHY = "The passages say so in one sentence that is quoted here."


def _text(rng: random.Random, n_chars: int) -> str:
    return " ".join(rng.choices(_WORDS, k=n_chars // 7))


def made_result(rng: random.Random, at: datetime, rules: ScoringRules) -> Result:
    """Make a sample of usual size as a worker hands it to the store, scored with two metrics."""
    interaction = make_interaction(
        app=_APP,
        query=_text(rng, 100),
        contexts=[_text(rng, 500) for _ in range(3)],
        output=_text(rng, 400),
        timestamp=at,
        user_id=f"user-{rng.randrange(10_000)}",
        session_id=f"{rng.getrandbits(64):x}",
        trace_id=f"{rng.getrandbits(128):032x}",
        release=f"v{at.timetuple().tm_yday // 7}",
        environment="production",
        tags={
            "model": rng.choice(["large", "small"]),
            "prompt_version": "7",
            "route": rng.choice(["chat", "mail", "search"]),
            "language": rng.choice(["en", "de", "fr", "es"]),
        },
    )
    said = [
        Evaluation(
            target_event_id=interaction.id, evaluator_name=name, evaluator_version="local-1",
            score=rng.random(), explanation=_WHY, confidence=0.9, duration_ms=1.0,
            timestamp=at,
        )
        for name in ("groundedness", "relevance")
    ]  # fmt: skip
    return result_of(make_sample(interaction, sampled_at=at), said, rules, now=at)


def _write(store: Store, rng: random.Random, day: datetime, n: int, rules: ScoringRules) -> None:
    moments = sorted(day + timedelta(seconds=rng.randrange(86_400)) for _ in range(n))
    for first in range(0, n, _BATCH):
        batch = [made_result(rng, at, rules) for at in moments[first : first + _BATCH]]
        now = moments[min(first + _BATCH, n) - 1]
        with store.write() as connection:
            record(connection, batch, now=now, bucket_s=rules.bucket_s)


def _year(store: Store, days: int, per_day: int) -> Iterator[tuple[int, int, int, int, float]]:
    """Yield day, size, rows of samples and evaluations, and the seconds that deleting took."""
    settings, rng = Settings(), random.Random(1)
    rules = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=settings.segments)
    keeper = Retention(store=store, ages=ages_from(settings), budget_s=60.0)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(days):
        day = start + timedelta(days=number)
        _write(store, rng, day, per_day, rules)
        now_s = (day + timedelta(days=1)).timestamp()
        roll_up(store, now_s=now_s, settle_s=600)
        compact_inputs(store, [_APP], now_s=now_s)
        began_s = time.perf_counter()
        keeper.run(now_s)
        took_s = time.perf_counter() - began_s
        if number % 30 == 29 or number == days - 1:  # a line a month
            n_samples, n_evaluations = count_rows(store, (samples, evaluations))
            with store.read() as connection:
                yield number + 1, size_bytes(connection), n_samples, n_evaluations, took_s


def main() -> None:
    """Print a line a simulated month, and the size of a million samples."""
    given = make_parser(__doc__, days=365, per_day=200, store="").parse_args()
    with new_store(given.store) as store:
        for day, size, n_samples, n_evaluations, took_s in _year(store, given.days, given.per_day):
            print(
                f"day {day:3}: {size / 1e6:7.1f} MB, {n_samples:,} samples,"
                f" {n_evaluations:,} evaluations; deleting took {took_s:.2f} s",
                flush=True,
            )
    with new_store(given.store) as fresh:
        with fresh.read() as connection:
            empty = size_bytes(connection)
        rules = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=Settings().segments)
        day = datetime(2026, 1, 1, tzinfo=UTC)
        _write(fresh, random.Random(2), day, _MANY, rules)
        keeper = Retention(store=fresh, ages=ages_from(Settings()), budget_s=600.0)
        for days, what in ((1, "on their day"), (4, "without minutes"), (35, "without texts")):
            now_s = (day + timedelta(days=days, hours=2)).timestamp()
            roll_up(fresh, now_s=now_s, settle_s=600)
            keeper.run(now_s)
            free_space(fresh, end_s=time.monotonic() + 60)
            with fresh.read() as connection:
                size = size_bytes(connection) - empty
            print(f"a million samples {what}: {size / _MANY * 1e6 / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
