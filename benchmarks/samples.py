"""
What finding samples costs: first page, a thousandth page, each filter alone and together.

    python benchmarks/samples.py [SAMPLES] [DATABASE_URL]

A million samples of 20 apps in SQLite unless said otherwise (about 4 GB, deleted afterwards; a
PostgreSQL database on this machine should be empty, and is left as it is). CPU of this process
and of the server's.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Connection, text

from monitor.models import Interaction, Sample
from monitor.store import Sort
from monitor.store.engine import Store, migrate
from monitor.store.packing import WITH_SAMPLE, pack
from monitor.store.sample_index import allot_positions, terms_of, write_terms
from monitor.store.search import SampleFilter, find_samples
from monitor.store.tables import evaluations, samples

_BATCH = 2_000
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_EVERY_MS = 500
_METRICS = ("groundedness", "relevance")
_WORDS = [f"word{number}" for number in range(20_000)]
_WEIGHTS = list(itertools.accumulate(1 / (number + 1) for number in range(len(_WORDS))))


def main() -> None:
    """Fill a store and measure."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with TemporaryDirectory(prefix="groundwatch-samples-") as folder:
        file = Path(folder) / "samples.db"
        store = Store(sys.argv[2] if len(sys.argv) > 2 else f"sqlite:///{file}")  # noqa: PLR2004
        migrate(store)
        began = time.perf_counter()
        for start in range(0, count, _BATCH):
            _fill(store, range(start, min(count, start + _BATCH)))
        print(f"{count:,} samples stored in {time.perf_counter() - began:,.0f} s")
        if store.is_postgresql:
            with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as plain:
                plain.execute(text("VACUUM ANALYZE"))
        _measure(store, count)
        store.close()


def _fill(store: Store, numbers: range) -> None:
    chance = random.Random(numbers.start)  # noqa: S311
    times = {_id(n): round(_BEGAN.timestamp() * 1000) + n * _EVERY_MS for n in numbers}
    rows, scores, terms = [], [], []
    with store.write() as connection:
        positions = allot_positions(connection, times)
        for number in numbers:
            sample_id, app = _id(number), f"app-{number % 20}"
            asked = " ".join(chance.choices(_WORDS, cum_weights=_WEIGHTS, k=40))
            language = "fr" if chance.random() < 0.001 else "en"  # noqa: PLR2004
            it = Interaction.model_construct(
                id=f"i-{number}", app=app, query=asked[:80], output=asked, contexts=(),
                release=f"v{number // 100_000}", user_id=f"user-{chance.randrange(100_000)}",
                session_id=f"session-{number // 5}", trace_id=None, tags={"language": language},
            )  # fmt: skip
            sample = Sample.model_construct(sample_id=sample_id, interaction=it)
            for metric in _METRICS:
                score = round(chance.betavariate(8, 1.2), 3)
                scores.append({
                    "evaluation_id": f"{sample_id}-{metric}", "sample_id": sample_id, "app": app,
                    "metric": metric, "evaluator_version": "local-1", "status": "completed",
                    "score": score, "passed": int(score >= 0.7),  # noqa: PLR2004
                    "occurred_at_ms": times[sample_id], "record": WITH_SAMPLE, "reason": "",
                })  # fmt: skip
            rows.append(_row(sample_id, it, times[sample_id], positions[sample_id], language))
            segments = (f"language={language}",)
            terms.append(
                terms_of(positions[sample_id], sample, segments, "", scores[-len(_METRICS) :])
            )
        connection.execute(samples.insert(), rows)
        connection.execute(evaluations.insert(), scores)
        write_terms(connection, terms)


def _id(number: int) -> str:
    return f"0190{number:028x}"


def _row(sample_id: str, it: Interaction, at_ms: int, position: int, lang: str) -> dict[str, Any]:
    payload = {"interaction": {
        "id": it.id, "app": it.app, "query": it.query, "output": it.output,
        "release": it.release, "user_id": it.user_id, "tags": it.tags,
        "contexts": [{"text": it.output}] * 4,
    }}  # fmt: skip
    return {
        "sample_id": sample_id, "interaction_id": it.id, "app": it.app, "occurred_at_ms": at_ms,
        "received_at_ms": at_ms, "sample_rate": 1.0, "outcome": "scored", "reason": "",
        "payload": pack(json.dumps(payload)), "segments": [f"language={lang}"],
        "position": position,
    }  # fmt: skip


def _filters(count: int) -> Iterator[tuple[str, dict[str, Any], Sort]]:
    middle = _BEGAN + timedelta(milliseconds=_EVERY_MS * (count // 2))
    scored = {"metric": "groundedness"}
    newest = Sort.NEWEST
    yield "nothing", {}, newest
    yield "app", {"app": "app-3"}, newest
    yield "failed", {**scored, "outcome": "failed"}, newest
    yield "app, failed", {"app": "app-3", **scored, "outcome": "failed"}, newest
    yield "unscored (none)", {**scored, "outcome": "unscored"}, newest
    yield "score 0.30 to 0.35", {**scored, "min_score": 0.3, "max_score": 0.35}, newest
    yield "rare segment", {"segment": ("language=fr",)}, newest
    yield "segment, failed", {"segment": ("language=fr",), **scored, "outcome": "failed"}, newest
    yield "old release", {"release": "v0"}, newest
    yield "old release, failed", {"release": "v0", **scored, "outcome": "failed"}, newest
    yield "user", {"user": "user-77"}, newest
    yield "session", {"session": "session-100"}, newest
    yield "an hour", {"since": middle, "until": middle + timedelta(hours=1)}, newest
    yield "an hour, failed", {
        "since": middle, "until": middle + timedelta(hours=1), **scored, "outcome": "failed",
    }, newest  # fmt: skip
    yield "frequent word", {"text": "word1"}, newest
    yield "rare word", {"text": "word15000"}, newest
    yield "phrase", {"text": '"word20 word30"'}, newest
    yield "word, old release", {"text": "word5", "release": "v0"}, newest
    yield "lowest scores", scored, Sort.LOWEST
    yield "app, lowest scores", {"app": "app-3", **scored}, Sort.LOWEST
    yield "failed, highest scores", {**scored, "outcome": "failed"}, Sort.HIGHEST
    yield "labelled (none)", {"label": "any"}, newest


def _measure(store: Store, count: int) -> None:
    print(f"{'milliseconds for':26} first page   page 1,000   samples")
    for name, wanted, sort in _filters(count):
        figures, found = [], 0
        filtered = SampleFilter(**wanted)
        for far in (False, True):
            best, cursor = float("inf"), ""
            with store.read() as connection:
                cursor = _cursor(connection, filtered, sort) if far else ""
                for _ in range(3):
                    began_s = _cpu_s(connection)
                    page = find_samples(connection, filtered, sort=sort, cursor=cursor)
                    best = min(best, _cpu_s(connection) - began_s)
                    found = found if far else len(page.items)
            figures.append(1000 * best)
        print(f"{name:26} {figures[0]:10.1f}   {figures[1]:10.1f}   {found:7}")


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
