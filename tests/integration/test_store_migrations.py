"""Migrations lead to exactly the tables that the program knows, on both databases."""

import json
from contextlib import closing

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, event, inspect, text

from monitor.errors import SettingsError, StoreError, StoreUnavailableError
from monitor.store.columns import facet, pack
from monitor.store.engine import Store
from monitor.store.reconcile import sums_of_store
from monitor.store.sample_filter import SampleFilter
from monitor.store.sample_index import index_older
from monitor.store.samples import read_sample
from monitor.store.schema import HEAD, _config, check_schema, migrate
from monitor.store.search import find_samples
from monitor.store.tables import metadata
from monitor.testing import make_evaluation, make_interaction, make_sample


def test_migrations_create_the_tables_the_program_expects(store):
    with store.read() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "version_table": "groundwatch_schema",
                "compare_type": True,
                # A virtual table of SQLite, and one of PostgreSQL that is like no other's.
                "include_name": lambda name, kind, _: (
                    kind != "table" or not name.startswith("groundwatch_sample_terms")
                ),
            },
        )
        assert compare_metadata(context, metadata) == []


def test_every_table_has_our_prefix(store):
    names = inspect(store.engine).get_table_names()
    assert len(names) > 10
    assert all(name.startswith("groundwatch_") for name in names)


def test_migrating_again_changes_nothing(store):
    before, after = migrate(store)
    assert before == after


def test_head_constant_is_the_newest_revision():
    assert ScriptDirectory.from_config(_config()).get_current_head() == HEAD


def test_store_without_tables_says_what_to_run(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 'new.db'}")
    with pytest.raises(StoreError, match="run: groundwatch migrate"):
        check_schema(store)
    store.close()


def test_store_of_a_newer_program_is_refused(store):
    with store.write() as connection:
        connection.execute(text("UPDATE groundwatch_schema SET version_num = 'from-the-future'"))
    with pytest.raises(StoreError, match="newer groundwatch"):
        check_schema(store)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("not a url", "not a database address"),
        ("mysql://localhost/x", "mysql is not supported"),
        ("nonsense://localhost/x", "not"),
    ],
)
def test_wrong_address_says_which_setting_to_correct(url, message):
    with pytest.raises(SettingsError, match=f"GROUNDWATCH_DATABASE_URL: .*{message}"):
        Store(url)


def test_unreachable_database_is_reported_without_its_password():
    store = Store("postgresql+psycopg://user:hunter2@127.0.0.1:9/x?connect_timeout=2")
    with pytest.raises(StoreUnavailableError, match="check GROUNDWATCH_DATABASE_URL") as caught:
        migrate(store)
    store.close()
    assert "hunter2" not in str(caught.value)


@pytest.fixture(params=["sqlite", "postgresql"])
def bare_store(request, tmp_path):
    """A store without any table, on each of the two databases."""
    if request.param == "sqlite":
        with closing(Store(f"sqlite:///{tmp_path / 'bare.db'}")) as store:
            yield store
        return
    with closing(Store(request.getfixturevalue("postgres_server"))) as server:
        url = server.engine.url
        alone = create_engine(url, isolation_level="AUTOCOMMIT")
        with alone.connect() as connection:
            connection.exec_driver_sql("DROP DATABASE IF EXISTS bare")
            connection.exec_driver_sql("CREATE DATABASE bare")
        bare = url.set(database="bare").render_as_string(hide_password=False)
        with closing(Store(bare)) as store:
            yield store
        with alone.connect() as connection:
            connection.exec_driver_sql("DROP DATABASE bare WITH (FORCE)")
        alone.dispose()


def stream_sums(store):
    query = "SELECT sum_wy, past_wy, sum_w - past_w FROM groundwatch_streams"
    with store.read() as connection:
        return connection.execute(text(query)).one()


def test_ledger_balances_after_upgrading_a_schema_without_stream_sums(bare_store):
    """Written by the program of that time: a stream of 200 scores, none of them in its sums."""
    with bare_store.write() as connection:
        command.upgrade(_config(connection), "0002")
        connection.execute(text(
            "INSERT INTO groundwatch_streams"
            " (app, metric, segment, evaluator_version, n_total, last_bucket_s)"
            " VALUES ('shop', 'groundedness', '*', 'local-1', 400, 120)"
        ))  # fmt: skip
        for start_s in (60, 120):
            connection.execute(text(
                "INSERT INTO groundwatch_buckets (stream_id, start_s, n, passed, failed, skipped,"
                " sum_w, sum_w2, sum_wy, sum_w2y, sum_x, sum_x2, sum_wx, cost_microusd)"
                f" SELECT stream_id, {start_s}, 200, 100, 0, 0, 200, 200, 100, 100, 100, 100,"
                " 100, 0 FROM groundwatch_streams"
            ))  # fmt: skip
    migrate(bare_store)
    with bare_store.read() as connection:
        sums = [item for item in sums_of_store(connection, since_s=0) if "streams" in item.check]
    assert [item.where for item in sums if not item.holds] == []
    # Readers, who leave the past out, see no news.
    assert stream_sums(bare_store) == (200, 200, 0)
    migrate(bare_store)
    assert stream_sums(bare_store) == (200, 200, 0)


START_S = 1_700_000_040
#: Two scores, 0.9 and 0.2, and two evaluations without one, as every release has summed them.
SUMS = {
    "n": 2, "passed": 1, "failed": 1, "skipped": 1, "sum_w": 2, "sum_w2": 2, "sum_wy": 1,
    "sum_w2y": 1, "sum_w2yy": 1, "sum_x": 1.1, "sum_x2": 0.85, "sum_wx": 1.1, "sum_wxx": 0.85,
    "cost_microusd": 0,
}  # fmt: skip


def insert(connection, table, **values):
    """Insert a row of those values for which the table has a column at its revision."""
    columns = {column["name"] for column in inspect(connection).get_columns(f"groundwatch_{table}")}
    given = {name: value for name, value in values.items() if name in columns}
    places = ", ".join(f":{name}" for name in given)
    sql = f"INSERT INTO groundwatch_{table} ({', '.join(given)}) VALUES ({places})"
    connection.execute(text(sql), given)


def samples_of(app):
    """Two samples with a score, one that failed and one that was skipped, with their records."""
    for name, said in {
        "scored": {"score": 0.9}, "worse": {"score": 0.2},
        "failed": {
            "status": "failed",
            "error": {"type": "TimeoutError", "code": "judge_timeout", "message": "late"},
        },
        "skipped": {"status": "skipped", "metadata": {"reason": "no_contexts"}},
    }.items():  # fmt: skip
        names = {"release": "v1", "trace_id": f"{app}-{name}-t", "session_id": f"{app}-s"}
        interaction = make_interaction(id=f"{app}-{name}", app=app, **names)
        sample = make_sample(interaction, sample_id=f"{app}-{name}").model_dump(mode="json")
        record = make_evaluation().model_dump(mode="json", exclude_none=True)
        record |= {"evaluation_id": f"{app}-{name}-e", "explanation": f"why {name}"} | said
        if "score" not in said:
            del record["score"]
        yield name, sample, record


def write_as_then(connection, revision):
    """Write what the program of a revision wrote: samples, sums, ledger, a dead letter."""
    app, packs = f"of-{revision}", revision >= "0019"
    of = ["language=en"] if revision >= "0024" else []
    at_ms, booked = START_S * 1000, {"app": app, "start_s": START_S, "reason": ""}
    for number, (name, sample, record) in enumerate(samples_of(app)):
        outcome = "scored" if "score" in record else name
        reason = {"failed": "judge_timeout", "skipped": "no_contexts"}.get(name, "")
        plain, said = json.dumps(sample), json.dumps(record)
        insert(
            connection, "samples", sample_id=sample["sample_id"], app=app, outcome=outcome,
            interaction_id=sample["interaction"]["id"], reason=reason, sample_rate=1.0,
            occurred_at_ms=at_ms, received_at_ms=at_ms, release="v1",
            trace_id=sample["interaction"]["trace_id"],
            session_id=sample["interaction"]["session_id"],
            segments="[]" if of else '["language=en"]',
            payload=pack(plain, [said], of) if packs else plain,
            **({"position": -10_000 - number} if revision >= "0027" else {}),
        )  # fmt: skip
        score, numbered = record.get("score"), revision >= "0025"
        by = (app, "groundedness", "local-1")
        numbers = {"evaluator_key": facet(*by), "metric_key": facet(*by[:2])}
        names = dict(zip(("app", "metric", "evaluator_version"), by, strict=True))
        if numbered and name == "scored":
            insert(connection, "evaluators", **names, **numbers)
        ended = {"status": record["status"], "reason": reason, "record": b"" if packs else said}
        if numbered:
            empty = "" if revision >= "0027" else None
            ended = {key: empty if value in {"", b"", "completed"} else value
                     for key, value in ended.items()}  # fmt: skip
        insert(
            connection, "scores" if numbered else "evaluations", **names, **numbers, **ended,
            evaluation_id=record["evaluation_id"], sample_id=sample["sample_id"], score=score,
            passed=None if score is None else int(score > 0.5), occurred_at_ms=at_ms,
            position=-10_000 - number, judged=-1 if revision >= "0027" else None,
        )  # fmt: skip
        for table in ("totals", "counts"):
            insert_or_add(connection, table, **booked | {"kind": outcome, "reason": reason})
    for segment in ("*", "language=en") if revision >= "0004" else ("*",):
        insert(
            connection, "streams", app=app, metric="groundedness", segment=segment, n_total=2,
            evaluator_version="local-1", last_bucket_s=START_S, sum_w=2, sum_w2=2, sum_wy=1,
        )  # fmt: skip
        stream = {"stream_id": connection.execute(text(
            "SELECT max(stream_id) FROM groundwatch_streams"
        )).scalar(), "start_s": START_S}  # fmt: skip
        insert(connection, "buckets", **stream, **SUMS)
        for position in (90, 20):
            insert(connection, "bucket_bins", **stream, bin=position, count=1)
    insert(
        connection, "dead_letters", entry_id=f"1-{revision}", app=app, at_ms=at_ms,
        reason="unreadable", detail="", body=b"{",
    )  # fmt: skip
    counters = {"seen": 10, "sampled": 6, "sent": 5, "dropped:buffer_full": 1}
    insert(
        connection, "hooks", hook_id=f"h-{revision}", app=app, host="web", pid=1,
        heartbeat_at_ms=at_ms, counters=json.dumps(counters),
    )  # fmt: skip
    for name, n in (counters | {"failed:unreadable": 1}).items():
        kind, _, reason = name.partition(":")
        for table in ("totals", "counts"):
            insert(connection, table, **booked | {"kind": kind, "reason": reason}, count=n)


def insert_or_add(connection, table, **key):
    """Count one more in the ledger."""
    where = " AND ".join(f"{name} = :{name}" for name in key if name != "start_s")
    more = f"UPDATE groundwatch_{table} SET count = count + 1 WHERE {where}"
    if not connection.execute(text(more), key).rowcount:
        insert(connection, table, **key, count=1)


def test_ledger_and_samples_survive_upgrades_from_every_released_schema(bare_store):
    """One store that was used at every revision: what each wrote goes through all that follow."""
    scripts = ScriptDirectory.from_config(_config()).walk_revisions()
    revisions = [script.revision for script in reversed(list(scripts))]
    for revision in revisions:
        with bare_store.write() as connection:
            command.upgrade(_config(connection), revision)
            write_as_then(connection, revision)
    with bare_store.write() as connection:
        while index_older(connection):
            pass
    with bare_store.read() as connection:
        sums = list(sums_of_store(connection, since_s=0))
        assert {(item.check, item.where) for item in sums if not item.holds} == set()
        assert len({item.check for item in sums}) > 6  # none is left out
        for revision in revisions:
            app = f"of-{revision}"
            for name, _, record in samples_of(app):
                stored = read_sample(connection, f"{app}-{name}")
                [found] = stored.evaluations
                assert found.evaluation.explanation == record["explanation"]
                assert found.evaluation.score == record.get("score")
                traced = SampleFilter(trace=f"{app}-{name}-t")
                assert [item.sample_id for item in find_samples(connection, traced).items] == [
                    f"{app}-{name}"
                ]
            for wanted in (
                {"app": app}, {"app": app, "release": "v1"}, {"app": app, "session": f"{app}-s"},
            ):  # fmt: skip
                assert len(find_samples(connection, SampleFilter(**wanted)).items) == 4
            failed = SampleFilter(app=app, metric="groundedness", reason="judge_timeout")
            assert [item.sample_id for item in find_samples(connection, failed).items] == [
                f"{app}-failed"
            ]


def test_upgrade_on_a_full_disk_changes_nothing_and_says_so(tmp_path):
    with closing(Store(f"sqlite:///{tmp_path / 'full.db'}")) as store:
        with store.write() as connection:
            command.upgrade(_config(connection), "0018")
            write_as_then(connection, "0018")
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()

        store.engine.dispose()
        most = f"PRAGMA max_page_count = {pages}"
        event.listen(store.engine, "connect", lambda connection, _: connection.execute(most))
        with pytest.raises(StoreUnavailableError, match="is full; make room on its disk"):
            migrate(store)
    with closing(Store(f"sqlite:///{tmp_path / 'full.db'}")) as store:
        assert migrate(store) == ("0018", HEAD)
        with store.read() as connection:
            assert read_sample(connection, "of-0018-scored").evaluations
