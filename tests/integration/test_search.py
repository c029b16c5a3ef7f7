"""Samples are found by all that is known of them, in order and page by page, on both databases."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError
from sqlalchemy import event, text

from monitor.errors import RowRefusedError
from monitor.models import Evaluation
from monitor.settings.tables import RetentionTimes
from monitor.store import Sort
from monitor.store.retention import Retention, blank
from monitor.store.sample_filter import SampleFilter
from monitor.store.sample_index import (
    FOUND,
    PERIOD_BITS,
    TIE_BITS,
    Terms,
    allot_positions,
    facet,
    index_older,
    write_terms,
)
from monitor.store.search import _by_index, _positions, find_samples, neighbours
from monitor.store.tables import labels
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from support.waiting import wait_until
from workers.scoring_run import ScoringRules, result_of

NOW = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)
RULES = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=("language",))
SKIPPED = Evaluation.skipped(
    target_event_id="i", evaluator_name="groundedness", reason="no_contexts"
)


def add(store, score=0.9, *, minutes_ago=0.0, app="bot", **interaction):
    """Store one scored sample, or one that was skipped if *score* is None; return its id."""
    at = NOW - timedelta(minutes=minutes_ago)
    sample = make_sample(make_interaction(app=app, **interaction), sampled_at=at)
    evaluation = SKIPPED if score is None else make_evaluation(score=score)
    with store.write() as connection:
        result = result_of(sample, (evaluation,), RULES, now=NOW)
        assert record(connection, [result], now=NOW, bucket_s=60) == 1
    return sample.sample_id


def found(store, *, apps=None, sort=Sort.NEWEST, limit=50, cursor="", **wanted):
    with store.read() as connection:
        page = find_samples(
            connection, SampleFilter(**wanted), apps=apps, sort=sort, limit=limit, cursor=cursor
        )
    return [item.sample_id for item in page.items]


@pytest.fixture
def three(store):
    """A good answer in English, a bad one in French, and one that could not be judged."""
    good = add(store, 0.9, minutes_ago=2, query="How long does a refund take?", output="Five days.",
               release="v1", user_id="ann", session_id="s1", trace_id="t1",
               tags={"language": "en"})  # fmt: skip
    bad = add(store, 0.31, minutes_ago=1, query="Is water damage covered?", output="Ask our CEO.",
              release="v2", user_id="bob", session_id="s2", tags={"language": "fr"})  # fmt: skip
    none = add(store, None, app="other", query="Hello there", output="Hi!")
    return {"good": good, "bad": bad, "none": none}


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({}, ["none", "bad", "good"]),
        ({"app": "bot"}, ["bad", "good"]),
        ({"metric": "groundedness", "outcome": "passed"}, ["good"]),
        ({"metric": "groundedness", "outcome": "failed"}, ["bad"]),
        ({"outcome": "failed"}, ["bad"]),
        ({"outcome": "scored"}, ["bad", "good"]),
        ({"outcome": "unscored"}, ["none"]),
        ({"reason": "no_contexts"}, ["none"]),
        ({"metric": "groundedness", "reason": "no_contexts"}, ["none"]),
        ({"metric": "relevance"}, []),
        ({"segment": ("language=fr",)}, ["bad"]),
        ({"tag": ("language=en",)}, ["good"]),
        ({"release": "v1"}, ["good"]),
        ({"user": "bob"}, ["bad"]),
        ({"session": "s1"}, ["good"]),
        ({"trace": "t1"}, ["good"]),
        ({"metric": "groundedness", "max_score": 0.31}, ["bad"]),
        ({"metric": "groundedness", "min_score": 0.305, "max_score": 0.309}, []),
        ({"metric": "groundedness", "min_score": 0.5}, ["good"]),
        ({"since": NOW - timedelta(minutes=1)}, ["none", "bad"]),
        ({"until": NOW - timedelta(minutes=1)}, ["good"]),
        ({"text": "refund"}, ["good"]),
        ({"text": "REFUND days"}, ["good"]),
        ({"text": '"water damage"'}, ["bad"]),
        ({"text": '"damage water"'}, []),
        ({"text": "cover*"}, ["bad"]),
        ({"text": "it's * \" ' OR NEAR(x) -- \\"}, []),
        ({"text": "?!"}, []),
        ({"text": "refund", "user": "bob"}, []),
        ({"app": "bot", "outcome": "failed", "text": "damage", "release": "v2"}, ["bad"]),
    ],
)
def test_each_filter_finds_exactly_its_samples(store, three, wanted, names):
    assert found(store, **wanted) == [three[name] for name in names]


@pytest.mark.parametrize("wanted", [{"min_score": 0.5}, {"evaluator": "x"}, {"outcome": "bad"}])
def test_invalid_filter_is_refused(wanted):
    with pytest.raises(ValidationError):
        SampleFilter(**wanted)


def test_phrase_search_ignores_samples_with_only_the_separate_words(store):
    words = ("Water damage.", 'a\n(Water)\t"damage", café', "WATER-\u0000damage <b>é</b>")
    said = [add(store, minutes_ago=60 + n, output=output) for n, output in enumerate(words)]
    for n in range(30):
        add(store, minutes_ago=n, output=f"Water{' <>' * 2 * n} or some other damage.")
    for limit in (1, 2, 3, 50):
        assert found(store, text='"water damage"', limit=limit) == said[:limit]
        oldest = found(store, text='"water damage"', limit=limit, sort=Sort.OLDEST)
        assert oldest == said[::-1][:limit]
    assert found(store, text='"damage water"') == []
    assert found(store, text='"water dam*"') == said
    assert found(store, text='"damage café"') == [said[1]]
    path = add(store, output="In C:\\name <bob@example.com> wrote.")
    assert found(store, text='"c name bob@example.com wrote"') == [path]


def test_apps_without_permission_are_left_out(store, three):
    assert found(store, apps={"other"}) == [three["none"]]
    assert found(store, apps={"other"}, app="bot") == []
    assert found(store, apps=()) == []


def test_samples_are_found_by_their_labels(store, three):
    with store.write() as connection:
        row = {
            "sample_id": three["bad"], "metric": "groundedness", "evaluator_version": "v",
            "labelled_by": "ann", "app": "bot", "judge_passed": 0, "human_passed": 1,
            "labelled_at": datetime.now(UTC),
        }  # fmt: skip
        connection.execute(labels.insert(), [row])
    assert found(store, label="pass") == found(store, label="any") == [three["bad"]]
    assert found(store, label="fail") == []
    assert found(store, label="none", app="bot") == [three["good"]]


@pytest.mark.parametrize("sort", list(Sort))
def test_pagination_returns_every_sample_once_in_order(store, sort):
    scores = [0.1, 0.9, 0.5, 0.5, 0.9, 0.3, 0.5]
    ids = [add(store, score, minutes_ago=number) for number, score in enumerate(scores)]
    seen, cursor = [], ""
    while cursor is not None:
        with store.read() as connection:
            page = find_samples(
                connection, SampleFilter(metric="groundedness"), sort=sort, cursor=cursor, limit=2
            )
        seen += [item.sample_id for item in page.items]
        cursor = page.next
    keys = {
        Sort.NEWEST: lambda i: i, Sort.OLDEST: lambda i: -i,
        Sort.LOWEST: lambda i: (scores[i], i), Sort.HIGHEST: lambda i: (-scores[i], i),
    }  # fmt: skip
    assert seen == [ids[i] for i in sorted(range(len(ids)), key=keys[sort])]


@pytest.mark.parametrize("cursor", ["x", "1.2.3", "-1", "1", "200.5", "9" * 30])
def test_cursor_of_another_list_is_refused(store, cursor):
    with store.read() as connection, pytest.raises(ValueError, match="begin again"):
        find_samples(connection, SampleFilter(metric="m"), sort=Sort.LOWEST, cursor=cursor)


def test_samples_of_one_millisecond_are_distinguished(store):
    ids = {add(store) for _ in range(20)}
    assert set(found(store)) == ids


def test_samples_of_one_millisecond_get_distinct_positions(store):
    """More of them than a millisecond has places on SQLite, as an import of one day may have."""
    times_ms = {f"sample-{number}": 1_700_000_000_000 for number in range(200)}
    with store.read() as connection:
        positions = allot_positions(connection, times_ms)
    assert len(set(positions.values())) == len(times_ms)
    first = 1_700_000_000_000 << TIE_BITS[store.engine.dialect.name]
    assert all(first <= position < first + 2**21 for position in positions.values())
    assert store.is_postgresql or max(positions.values()) < 2**47  # SQLite keeps it in six bytes


def test_two_samples_that_come_at_once_never_share_a_position(store):
    if not store.is_postgresql:
        return  # it has one writer at a time
    given = {}
    for number in range(10**6):  # two ids that draw the same place within their millisecond
        drawn = facet("position", f"s{number}", "0") % (1 << TIE_BITS["postgresql"])
        if drawn in given:
            break
        given[drawn] = f"s{number}"
    first, second = (
        result_of(
            make_sample(make_interaction(app="bot"), sample_id=name, sampled_at=NOW),
            (make_evaluation(),), RULES, now=NOW,
        )
        for name in (given[drawn], f"s{number}")
    )  # fmt: skip
    add(store)  # so that neither waits for the name of the app

    def write(one):
        with store.write() as connection:
            return record(connection, [one], now=NOW, bucket_s=60)

    with ThreadPoolExecutor(1) as pool, store.write() as connection:
        assert record(connection, [first], now=NOW, bucket_s=60) == 1
        refused = pool.submit(write, second)
        wait_until(lambda: waits_for_a_lock(store))
        connection.commit()
        with pytest.raises(RowRefusedError):
            refused.result()
    assert write(second) == 1  # as a run does with each of a batch that was refused
    assert len(found(store)) == 3


def waits_for_a_lock(store):
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with store.read() as connection:
        return connection.execute(text(waiting)).scalar() > 0


def test_neighbours_come_from_the_filtered_list(store, three):
    with store.read() as connection:
        beside = neighbours(connection, SampleFilter(), three["bad"], None)
        alone = neighbours(connection, SampleFilter(outcome="failed"), three["bad"], None)
    assert beside == (three["none"], three["good"])
    assert alone == (None, None)


def test_row_says_how_each_evaluation_ended(store, three):
    with store.read() as connection:
        item = find_samples(connection, SampleFilter(user="bob")).items[0]
    assert (item.query, item.output, item.release) == (
        "Is water damage covered?", "Ask our CEO.", "v2",
    )  # fmt: skip
    assert [(e.metric, e.score, e.passed) for e in item.evaluations] == [
        ("groundedness", 0.31, False)
    ]


def test_older_samples_are_indexed_in_bounded_steps(store, three):
    empty = "DELETE FROM groundwatch_sample_terms"
    if not store.is_postgresql:
        empty = (
            "INSERT INTO groundwatch_sample_terms(groundwatch_sample_terms) VALUES('delete-all')"
        )
    with store.write() as connection:
        connection.execute(text(empty))
        connection.execute(text("UPDATE groundwatch_samples SET position = -position"))
    assert found(store) == []
    steps = []
    while not steps or steps[-1]:
        with store.write() as connection:
            steps.append(index_older(connection, 2))
    assert steps == [2, 1, 0]
    assert found(store, text="refund", user="ann") == [three["good"]]


def test_emptied_sample_stays_listed_but_not_searchable_by_text_or_user(store, three):
    with store.write() as connection:
        blank(connection, [three["good"]], why="too old")
    assert found(store, text="refund") == found(store, user="ann") == []
    assert found(store, app="bot", outcome="passed") == [three["good"]]


def test_tag_is_no_segment_and_segment_no_tag_where_only_one_of_them_is_of_that_name(store):
    both = add(store, tags={"language": "en"})
    tag = add(store, tags={"plan": "pro"})
    segment = add(store, metadata={"language": "en"})
    assert found(store, tag=("language=en",)) == [both]
    assert set(found(store, segment=("language=en",))) == {both, segment}
    assert found(store, tag=("plan=pro",)) == [tag]
    assert found(store, segment=("plan=pro",)) == []


def test_deleted_samples_are_removed_from_the_index(store, three):
    kept = RetentionTimes(keep_texts_days=1, keep_evaluations_days=1)
    Retention(store=store, kept=kept).run(NOW.timestamp() + 2 * 86_400)
    assert found(store) == []
    with store.read() as connection:
        if store.is_postgresql:
            left = connection.execute(text("SELECT count(*) FROM groundwatch_sample_terms"))
        else:
            # Of an index without texts: what terms are left in it.
            connection.execute(text(
                "CREATE VIRTUAL TABLE temp.left"
                " USING fts5vocab(main, groundwatch_sample_terms, row)"
            ))  # fmt: skip
            left = connection.execute(text("SELECT count(*) FROM temp.left"))
        assert left.scalar() == 0


#: Of 7,000 samples, the newest 4,000 lie in the last hundredth of the time.
PLACES = [*range(0, 3_000_000, 1_000), *range(297_000_000, 297_004_000)]
NEWEST_FIRST = PLACES[::-1]
SPREAD = {
    "at every hundredth": NEWEST_FIRST[::100],
    "frequent, but not among the nearest": NEWEST_FIRST[3_500:6_500],
    "few and old": NEWEST_FIRST[5_000:5_010],
    "frequent long ago": NEWEST_FIRST[4_200:6_900],
}


@pytest.fixture
def spread(store):
    """An index of samples that lie as `SPREAD` says, each name a user."""
    facets = {name: (facet("user", name), set(places)) for name, places in SPREAD.items()}
    with store.write() as connection:
        write_terms(connection, [
            Terms(place, frozenset(mark for mark, places in facets.values() if place in places), "")
            for place in PLACES
        ])  # fmt: skip
    return store


@pytest.mark.parametrize("sort", [Sort.NEWEST, Sort.OLDEST])
def test_samples_are_found_in_order_whatever_their_distribution(spread, sort):
    for name, newest_first in SPREAD.items():
        places = newest_first if sort is Sort.NEWEST else newest_first[::-1]
        with spread.read() as connection:
            of_user = SampleFilter(user=name)
            first = _positions(connection, of_user, None, (), sort, None, 50)
            later = _positions(connection, of_user, None, (), sort, places[2], 50)
        assert (name, first, later) == (name, places[:50], places[3:53])


def test_postgresql_chooses_the_cheapest_search_strategy(spread):
    """Lists of GIN grow with the store: they are read where the nearest samples do not do."""
    looks = {"MATERIALIZED": "nearest", "FROM (SELECT": "further", "(periods)": "part",
             "position + 0": "few"}  # fmt: skip
    for name, expected in {
        "at every hundredth": ["nearest", "further"],
        "few and old": ["nearest", "few"],
        "frequent, but not among the nearest": ["nearest", "few", "part"],
    }.items():
        with spread.read() as connection:
            done = []
            event.listen(
                connection, "before_cursor_execute", lambda *given, to=done: to.append(given[2])
            )
            _positions(connection, SampleFilter(user=name), None, (), Sort.NEWEST, None, 50)
        found = [next((look for mark, look in looks.items() if mark in sql), "") for sql in done]
        assert [look for look in found if look] == (expected if spread.is_postgresql else [])


def test_postgresql_index_is_read_only_for_the_periods_of_a_part(store):
    if not store.is_postgresql:
        return
    mark, a_period, done = facet("user", "u"), 1 << PERIOD_BITS, []
    with store.write() as connection:
        write_terms(connection, [
            Terms(period * a_period + n, frozenset({mark}), "one two")
            for period in range(100) for n in range(20)
        ])  # fmt: skip
        event.listen(connection, "before_cursor_execute", lambda *given: done.append(given[2:4]))
        values = {"of": [mark], "phrase": "two", "low": -1, "high": 1 << 60, "limit": 20}
        wanted = (
            f"{FOUND} @> CAST(:of AS bigint[]) AND words @@ phraseto_tsquery('simple', :phrase)"
        )
        found = _by_index(connection, wanted, "DESC", values, [100])
        assert found == [99 * a_period + n for n in range(19, -1, -1)]
        [part] = [(sql, given) for sql, given in done if "(periods)" in sql]
        connection.exec_driver_sql("SET LOCAL enable_indexscan = off")
        plan = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {part[0]}", part[1])
        [scan] = re.findall(r"Bitmap Index Scan.*?'Actual Rows': ([0-9]+)", str(plan.scalar()))
        assert int(scan) <= 40  # of 2,000: the last period and the one before


def test_metric_facet_is_queried_only_when_no_other_filter_implies_it():
    of_metric = [facet("ended", "groundedness", name) for name in ("passed", "failed", "unscored")]
    for more in ({"outcome": "failed"}, {"reason": "no_contexts"}, {"evaluator": "local-1"},
                 {"max_score": 0.5}):  # fmt: skip
        wanted = SampleFilter(metric="groundedness", **more)
        assert of_metric not in list(wanted.facets())
    assert list(SampleFilter(metric="groundedness").facets()) == [of_metric]
