"""
What finding samples costs: first page, a thousandth page, each filter alone and together.

    python benchmarks/samples.py [SAMPLES] [DATABASE_URL]

A million samples of 20 apps in SQLite unless said otherwise (about 4 GB, deleted afterwards; a
PostgreSQL database on this machine should be empty, and is left as it is). CPU of this process
and of the server's.
"""

import itertools
import json
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from common import make_parser, new_store
from sqlalchemy import Connection, text

from monitor.models import Interaction, Sample
from monitor.store import Sort
from monitor.store.columns import WITH_SAMPLE, pack
from monitor.store.engine import Store
from monitor.store.sample_index import allot_positions, terms_of, write_terms
from monitor.store.search import SampleFilter, find_samples
from monitor.store.tables import evaluations, samples

_BATCH = 2_000
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_EVERY_MS = 500
_METRICS = ("groundedness", "relevance")
WORDS = [f"word{number}" for number in range(20_000)]
WORD_WEIGHTS = list(itertools.accumulate(1 / (number + 1) for number in range(len(WORDS))))


def main() -> None:
    """Fill a store and measure."""
    parser = make_parser(__doc__)
    parser.add_argument("samples", type=int, nargs="?", default=1_000_000)
    parser.add_argument("database_url", nargs="?", default="")
    asked = parser.parse_args()
    count = asked.samples
    with new_store(asked.database_url) as store:
        began = time.perf_counter()
        for start in range(0, count, _BATCH):
            _fill(store, range(start, min(count, start + _BATCH)))
        print(f"{count:,} samples stored in {time.perf_counter() - began:,.0f} s")
        if store.is_postgresql:
            with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as plain:
                plain.execute(text("VACUUM ANALYZE"))
        print(f"{'milliseconds for':26} first page   page 1,000   samples")
        for name, wanted, sort in filters(count):
            first, n = measure(store, SampleFilter(**wanted), sort, far=False)
            thousandth, _ = measure(store, SampleFilter(**wanted), sort, far=True)
            print(f"{name:26} {first:10.1f}   {thousandth:10.1f}   {n:7}")


def _fill(store: Store, numbers: range) -> None:
    chance = random.Random(numbers.start)
    ids = {n: f"0190{n:028x}" for n in numbers}
    times = {ids[n]: round(_BEGAN.timestamp() * 1000) + n * _EVERY_MS for n in numbers}
    rows, scores, terms = [], [], []
    with store.write() as connection:
        positions = allot_positions(connection, times)
        for number, sample_id in ids.items():
            app, at_ms, position = f"app-{number % 20}", times[sample_id], positions[sample_id]
            asked = " ".join(chance.choices(WORDS, cum_weights=WORD_WEIGHTS, k=40))
            language = "fr" if chance.random() < 0.001 else "en"
            segments = (f"language={language}",)
            known = {
                "id": f"i-{number}", "app": app, "query": asked[:80], "output": asked,
                "release": f"v{number // 100_000}", "user_id": f"user-{chance.randrange(100_000)}",
                "tags": {"language": language},
            }  # fmt: skip
            found = []
            for metric in _METRICS:
                score = round(chance.betavariate(8, 1.2), 3)
                found.append({
                    "sample_id": sample_id, "app": app,
                    "metric": metric, "evaluator_version": "local-1", "status": "completed",
                    "score": score, "passed": int(score >= 0.7), "occurred_at_ms": at_ms,
                    "record": WITH_SAMPLE, "reason": "",
                })  # fmt: skip
            scores += found
            packed = pack(json.dumps({"interaction": known | {"contexts": [{"text": asked}] * 4}}))
            rows.append({
                "sample_id": sample_id, "interaction_id": known["id"], "app": app,
                "occurred_at_ms": at_ms, "received_at_ms": at_ms, "sample_rate": 1.0,
                "outcome": "scored", "reason": "", "payload": packed, "segments": [*segments],
                "position": position,
            })  # fmt: skip
            it = Interaction.model_construct(
                **known, contexts=(), session_id=f"session-{number // 5}", trace_id=None
            )
            sample = Sample.model_construct(sample_id=sample_id, interaction=it)
            terms.append(terms_of(position, sample, segments, "", found))
        connection.execute(samples.insert(), rows)
        connection.execute(evaluations.insert(), scores)
        write_terms(connection, terms)


def filters(count: int) -> Iterator[tuple[str, dict[str, Any], Sort]]:
    """Yield what is looked for in *count* samples: its name, the filter, the order."""
    middle = _BEGAN + timedelta(milliseconds=_EVERY_MS * (count // 2))
    hour = {"since": middle, "until": middle + timedelta(hours=1)}
    scored, app = {"metric": "groundedness"}, {"app": "app-3"}
    failed, french = scored | {"outcome": "failed"}, {"segment": ("language=fr",)}
    for name, wanted in {
        "nothing": {}, "app": app, "failed": failed, "app, failed": app | failed,
        "unscored (none)": scored | {"outcome": "unscored"},
        "score 0.30 to 0.35": scored | {"min_score": 0.3, "max_score": 0.35},
        "rare segment": french, "segment, failed": french | failed,
        "old release": {"release": "v0"}, "old release, failed": {"release": "v0"} | failed,
        "user": {"user": "user-77"}, "session": {"session": "session-100"},
        "an hour": hour, "an hour, failed": hour | failed,
        "frequent word": {"text": "word1"}, "rare word": {"text": "word15000"},
        "phrase": {"text": '"word20 word30"'},
        "word, old release": {"text": "word5", "release": "v0"},
    }.items():  # fmt: skip
        yield name, wanted, Sort.NEWEST
    yield "lowest scores", scored, Sort.LOWEST
    yield "app, lowest scores", app | scored, Sort.LOWEST
    yield "failed, highest scores", failed, Sort.HIGHEST
    yield "labelled (none)", {"label": "any"}, Sort.NEWEST


def measure(store: Store, wanted: SampleFilter, sort: Sort, *, far: bool) -> tuple[float, int]:
    """Return the fewest milliseconds of three tries, and how many samples the page has."""
    taken_ms = []
    with store.read() as connection:
        cursor = _cursor(connection, wanted, sort) if far else ""
        for _ in range(3):
            began_s = _cpu_s(connection)
            page = find_samples(connection, wanted, sort=sort, cursor=cursor)
            taken_ms.append(1000 * (_cpu_s(connection) - began_s))
    return min(taken_ms), len(page.items)


def _cpu_s(connection: Connection) -> float:
    """Return the CPU time that this process and the server's used for the connection."""
    if connection.dialect.name == "sqlite":
        return time.process_time()
    pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
    schedule = Path(f"/proc/{pid}/schedstat").read_text(encoding="utf-8")
    return time.process_time() + int(schedule.split()[0]) / 1e9


def _cursor(connection: Connection, wanted: SampleFilter, sort: Sort) -> str:
    """Return the cursor behind the first 49,950 samples, or behind as many as there are."""
    cursor = ""
    for _ in range(10):
        page = find_samples(connection, wanted, sort=sort, cursor=cursor, limit=4_995)
        if page.next is None:
            break
        cursor = page.next
    return cursor


if __name__ == "__main__":
    main()
