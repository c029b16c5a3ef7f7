"""Segments: each value apart, bounded, decided once."""

import tracemalloc
from datetime import UTC, datetime, timedelta

from sqlalchemy import func, select, type_coerce

from monitor.store.columns import SegmentsColumn, segments_of
from monitor.store.query import active_streams, window_tallies
from monitor.store.tables import buckets, dimensions, samples, streams
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.scoring_run import ScoringRules, result_of

NOW = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)
RULES = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=("release", "user"))


def result(score=0.9, sample_id=None, **interaction):
    given = {"sample_id": sample_id} if sample_id else {}
    sample = make_sample(make_interaction(app="bot", **interaction), sampled_at=NOW, **given)
    return result_of(sample, [make_evaluation(score=score)], RULES, now=NOW)


def write(store, results):
    with store.write() as connection:
        return record(connection, results, now=NOW, bucket_s=60)


def by_segment(store):
    with store.read() as connection:
        names = {
            s.stream_id: s.key.segment for s in active_streams(connection, since_s=0, segment=None)
        }
        found = window_tallies(connection, from_s=0, segment=None)
    return {names[stream_id]: tally.n for stream_id, tally in found.items()}


def test_each_segment_value_is_counted_separately_and_in_total(store):
    write(store, [result(release="v1"), result(release="v2", tags={"user": "a"}), result()])
    assert by_segment(store) == {"*": 3, "release=v1": 1, "release=v2": 1, "user=a": 1}


def test_only_the_whole_app_is_listed_unless_asked_otherwise(store):
    write(store, [result(release="v1")])
    with store.read() as connection:
        assert [s.key.segment for s in active_streams(connection, since_s=0)] == ["*"]
        assert len(window_tallies(connection, from_s=0)) == 1


def test_sample_remembers_its_segments_and_redelivery_changes_nothing(store):
    item = result(release="v1", tags={"user": "a"})
    write(store, [item])
    before = by_segment(store)
    assert write(store, [item]) == 0
    assert by_segment(store) == before
    with store.read() as connection:
        kept = connection.execute(select(samples)).mappings().one()
        listed = connection.execute(select(type_coerce(samples.c.payload, SegmentsColumn))).scalar()
    assert segments_of(kept) == listed == ["release=v1", "user=a"]


def test_segment_value_beyond_the_limit_counts_as_other(store):
    write(store, [result(tags={"user": f"u{k:03}"}) for k in range(230)])
    found = by_segment(store)
    assert found["user=(other)"] == 30
    assert sum(n for name, n in found.items() if name.startswith("user=")) == 230


def test_frequent_segment_value_gets_a_slot(store):
    write(store, [result(tags={"user": f"u{k:03}"}) for k in range(200)])
    for _ in range(3):
        write(store, [result(tags={"user": "newcomer"}) for _ in range(3)])
    assert by_segment(store)["user=newcomer"] >= 3


def test_segments_of_a_tag_with_endless_values_are_bounded(store):
    tracemalloc.start()
    for batch in range(5):
        write(store, [result(tags={"user": f"{batch}-{k}"}) for k in range(100)])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    with store.read() as connection:
        n_streams = connection.execute(select(func.count()).select_from(streams)).scalar_one()
        n_buckets = connection.execute(select(func.count()).select_from(buckets)).scalar_one()
        of_users = select(dimensions.c.census).where(dimensions.c.dimension == "user")
        census = connection.execute(of_users).scalar_one()
    assert n_streams <= 202
    assert n_buckets <= 202
    assert len(census["named"]) <= 200
    assert len(census["waiting"]) <= 200
    assert peak < 30_000_000
    assert by_segment(store)["*"] == 500


def test_unusual_segment_values_are_stored(store):
    odd = ["a\0b", "x" * 5000, "=*=", "\u202e", " ", "(other)", "\ud7ff"]
    write(store, [result(tags={"user": value}) for value in odd])
    assert by_segment(store)["*"] == len(odd)
    assert all(len(name) <= 200 for name in by_segment(store))


def test_evaluation_long_after_its_bucket_counts_as_late(store):
    sample = make_sample(make_interaction(app="bot"), sampled_at=NOW)
    for minutes in (5, 20):
        at = NOW + timedelta(minutes=minutes)
        again = sample.model_copy(update={"sample_id": f"s-{minutes}"})
        write(store, [result_of(again, [make_evaluation()], RULES, now=at)])
    with store.read() as connection:
        (tally,) = window_tallies(connection, from_s=0).values()
    assert (tally.n, tally.late) == (2, 1)
