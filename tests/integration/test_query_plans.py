"""What is read every second or minute is found by an index, on both databases."""

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import event, select

from alerts import outbox
from alerts.outbox import throttled_recipients
from monitor.store.alert_tables import incidents
from monitor.store.alert_tables import outbox as outbox_table
from monitor.store.drift import bins_by_bucket, read_states
from monitor.store.engine import among
from monitor.store.ledger import last_heartbeat
from monitor.store.query import active_streams
from monitor.store.sample_index import ended_evaluations
from monitor.store.samples import unscored
from monitor.store.tables import samples
from workers.self_monitoring import read_apps

NOW = datetime(2026, 1, 8, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@contextmanager
def recorded(connection):
    """Record the statements that a connection executes, with their parameters."""
    statements = []

    def note(_connection, _cursor, statement, parameters, *_):
        statements.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", note)
    yield statements
    event.remove(connection, "before_cursor_execute", note)


def plans(store, run, table):
    """Explain all that *run* asks of a table; without rows PostgreSQL must be kept from scans."""
    with store.write() as connection:
        with recorded(connection) as statements:
            run(connection)
        asked = [item for item in statements if table in item[0]]
        assert asked
        explain = "EXPLAIN QUERY PLAN "
        if store.is_postgresql:
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
            explain = "EXPLAIN "
        return [
            "\n".join(str(row[-1]) for row in connection.exec_driver_sql(explain + sql, parameters))
            for sql, parameters in asked
        ]


class Message:
    """What a message that carries others is known by."""

    delivery_id, incident_id = "a", "b"


def merge(connection):
    outbox._merge(connection, [Message], "c", NOW)


READS = {
    "evaluations without a score": (
        lambda connection: unscored(connection, app="a", metric="m", since=NOW),
        "groundwatch_evaluations",
        {"groundwatch_evaluations_worst"},
    ),
    "evaluations of samples": (
        lambda connection: ended_evaluations(connection, [1, 2]),
        "groundwatch_evaluations",
        {"pk_groundwatch_scores", "PRIMARY KEY (position=?)"},
    ),
    "throttles of a channel": (
        lambda connection: throttled_recipients(connection, "slack", NOW),
        "groundwatch_outbox",
        {"groundwatch_outbox_finished"},
    ),
    "what a message carries": (
        lambda connection: outbox.carried_by(connection, Message),
        "groundwatch_outbox",
        {"groundwatch_outbox_merged"},
    ),
    "carried by a newer one": (
        merge,
        "merged_into IN",
        {"groundwatch_outbox_merged"},
    ),
    "streams that count": (
        lambda connection: active_streams(connection, since_s=1e9, segment=None),
        "groundwatch_streams",
        {"groundwatch_streams_last"},
    ),
    "states of detectors": (
        lambda connection: read_states(connection, [1, 2]),
        "groundwatch_drift_states",
        {"pk_groundwatch_drift_states", "PRIMARY KEY"},
    ),
    "samples that were written before": (
        lambda connection: connection.execute(
            select(samples.c.app).where(among(connection, samples.c.sample_id, ["a", "b"]))
        ),
        "groundwatch_samples",
        {"pk_groundwatch_samples", "sqlite_autoindex_groundwatch_samples_1"},
    ),
    "histograms of streams": (
        lambda connection: bins_by_bucket(connection, [1, 2], from_s=0, to_s=60),
        "groundwatch_bucket_bins",
        {"pk_groundwatch_bucket_bins", "PRIMARY KEY"},
    ),
    "hooks of an app": (
        lambda connection: last_heartbeat(connection, "bot"),
        "groundwatch_hooks",
        {"groundwatch_hooks_app"},
    ),
    "hooks of a day": (
        lambda connection: read_apps(connection, NOW, status_window_s=3600),
        "groundwatch_hooks",
        {"groundwatch_hooks_heartbeat"},
    ),
}


def fill_outbox(store):
    """Make an outbox of which nearly all was sent long ago, and let PostgreSQL know."""
    sent = {
        "incident_id": "i", "channel": "slack", "recipient": "", "event": "fired",
        "level": "warning", "snapshot": {}, "status": "sent", "attempts": 1, "token": 1,
        "created_at": NOW, "due_at": NOW, "tells": "fired", "possible_duplicate": False,
    }  # fmt: skip
    opened = {
        "incident_id": "i", "app": "bot", "metric": "m", "segment": "*", "window_s": 3600,
        "level": "warning", "peak_level": "warning", "since": NOW, "opened_at": NOW,
        "updated_at": NOW, "sequence": 1, "group_id": "i",
    }  # fmt: skip
    with store.write() as connection:
        connection.execute(incidents.insert(), [opened])
        connection.execute(
            outbox_table.insert(),
            [
                sent
                | {"delivery_id": str(n), "sequence": n, "finished_at": NOW - n * MINUTE}
                | {"status": "merged" if n % 2 else "sent", "merged_into": str(n - n % 2)}
                for n in range(2000)
            ],
        )
        if store.is_postgresql:
            connection.exec_driver_sql("ANALYZE groundwatch_outbox")


@pytest.mark.parametrize("name", READS)
def test_query_uses_its_index(store, name):
    run, table, indexes = READS[name]
    if table == "groundwatch_outbox":
        fill_outbox(store)
    for plan in plans(store, run, table):
        assert any(index in plan for index in indexes), plan
        assert "SCAN groundwatch" not in plan
