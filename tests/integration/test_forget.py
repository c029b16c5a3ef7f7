"""One person's data goes from everywhere; what was counted stays, and others lose nothing."""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from monitor.cli.app import app as cli
from monitor.models.alerting import DeliveryStatus
from monitor.queue import names
from monitor.queue.consumer import Consumer
from monitor.queue.wire import encode
from monitor.settings import Settings
from monitor.store.alert_tables import alert_events, incidents, outbox
from monitor.store.columns import pack, record_of
from monitor.store.feedback import Feedback, save_feedback
from monitor.store.labels import Label, save_labels
from monitor.store.ledger import read_totals
from monitor.store.samples import read_sample
from monitor.store.tables import evaluations, metadata, samples
from monitor.testing import make_interaction, make_sample
from workers.context import Components
from workers.operations import reconcile

NOW = datetime.now(UTC)
pytestmark = pytest.mark.usefixtures("fresh_now")
USER, OTHER = "ann@example.org", "bob@example.org"
SECRET, THEIRS = "zebra crossing behind the bakery", "lighthouse at the northern pier"


@pytest.fixture
def context(redis_url, store, monkeypatch):
    url = store.engine.url.render_as_string(hide_password=False)
    monkeypatch.setenv("GROUNDWATCH_REDIS_URL", redis_url)
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", url)
    context = Components(Settings.from_env())
    yield context
    context.close()


def sample(user_id, text, **fields):
    return make_sample(make_interaction(
        app="shop", user_id=user_id, query=f"Where is the {text}?", output=f"It is the {text}.",
        contexts=[f"The {text} is new."], session_id=f"session {user_id}",
        id=f"{user_id} {time.monotonic_ns()}", metadata={"note": text},
        trace_id=f"trace {'ab'[user_id == OTHER]}", **fields,
    ))  # fmt: skip


def put(context, *made, **changes):
    for item in made:
        context.redis.xadd(names.SAMPLES, encode(item) | changes)


def drain(context):
    made = context.scoring_run(lambda: True)
    made.idle_after_s = 0.05
    return made.run(budget_s=30)


@pytest.fixture
def everywhere(context):
    """Data of two people in the store, alerts, labels, feedback, set aside, cached, waiting."""
    mine, theirs = sample(USER, SECRET), sample(OTHER, THEIRS)
    put(context, mine, theirs)
    put(context, sample(USER, SECRET), v="2")
    drain(context)
    with context.store.write() as connection:
        said = {
            item.sample_id: f"Nothing is said of the {text}."
            for item, text in ((mine, SECRET), (theirs, THEIRS))
        }
        for sample_id, explanation in said.items():  # as a judge would write it
            of = evaluations.c.sample_id == sample_id
            row = connection.execute(
                select(evaluations, samples.c.payload).join(samples).where(of)
            ).first()
            record = {
                **record_of(row), "explanation": explanation, "metadata": {"quote": explanation},
            }  # fmt: skip
            name, whole = "evaluator_name", dict(row.payload)
            listed, of = whole.pop("evaluations"), whole.pop("segments")
            kept = [record if one[name] == record[name] else one for one in listed]
            packed = pack(json.dumps(whole), list(map(json.dumps, kept)), of)
            of_it = samples.update().where(samples.c.sample_id == sample_id)
            connection.execute(of_it.values(payload=packed))
        save_labels(connection, [
            Label(
                sample_id=item.sample_id, app="shop", metric="groundedness", evaluator_version="1",
                labelled_by="eve", judge_passed=True, human_passed=False,
                note=f"says {item.interaction.output}", labelled_at=NOW,
            )
            for item in (mine, theirs)
        ])  # fmt: skip
        save_feedback(connection, [
            Feedback(
                feedback_id=item.sample_id, app="shop", trace_id=item.interaction.trace_id,
                good=False, comment=item.interaction.output, given_at=NOW,
            )
            for item in (mine, theirs)
        ], source="api", now=NOW, bucket_s=60)  # fmt: skip
        quote(connection, [said[mine.sample_id], said[theirs.sample_id]])
    context.redis.set(names.verdict("k"), json.dumps({"quote": SECRET}))
    context.redis.zadd(names.VERDICTS, {names.verdict("k"): 1.0})
    put(context, sample(USER, SECRET), sample(OTHER, THEIRS), sample(USER, SECRET))
    return mine, theirs


def quote(connection, said):
    from monitor.format import plain_text

    snapshot = {"samples": [plain_text(text, 300) for text in said], "reason": "x"}
    connection.execute(incidents.insert().values(
        incident_id="i", app="shop", metric="m", segment="*", window_s=3600, level="critical",
        peak_level="critical", since=NOW, opened_at=NOW, updated_at=NOW, sequence=1,
    ))  # fmt: skip
    connection.execute(alert_events.insert().values(
        incident_id="i", sequence=1, event="fired", at=NOW, snapshot=snapshot,
    ))  # fmt: skip
    connection.execute(outbox.insert().values(
        delivery_id="d", incident_id="i", sequence=1, channel="slack", recipient="", event="fired",
        level="critical", snapshot=snapshot, status=DeliveryStatus.WAITING, attempts=0, token=0,
        created_at=NOW, due_at=NOW + timedelta(hours=1), tells="", possible_duplicate=False,
    ))  # fmt: skip


def forget(*more):
    done = CliRunner().invoke(cli, ["forget", "--user-id", USER, *more])
    assert done.exit_code == 0, done.output
    return done.output


def dump(context):
    """Write out every table, and every key of Redis."""
    with context.store.read() as connection:
        tables = [repr(connection.execute(select(table)).all()) for table in metadata.sorted_tables]
    kinds = {
        b"stream": context.redis.xrange,
        b"hash": context.redis.hgetall,
        b"string": context.redis.get,
        b"list": lambda key: context.redis.lrange(key, 0, -1),
        b"zset": lambda key: context.redis.zrange(key, 0, -1, withscores=True),
        b"set": context.redis.smembers,
    }
    keys = [repr(kinds[context.redis.type(key)](key)) for key in context.redis.scan_iter()]
    return "\n".join([*tables, *keys])


def test_person_is_erased_everywhere_and_others_are_kept(context, everywhere):
    before = dump(context)
    assert USER in before
    assert before.count(THEIRS.split(maxsplit=1)[0]) > 3
    said = forget()
    after = dump(context)
    assert [word for word in (USER, *SECRET.split()[:1], "bakery") if word in after] == []
    assert after.count(THEIRS.split(maxsplit=1)[0]) == before.count(THEIRS.split(maxsplit=1)[0])
    assert "samples 1" in said
    assert "waiting 2" in said
    assert "sha256:" in after


def test_counts_stay_and_reconcile_after_forgetting(context, everywhere):
    mine, _ = everywhere
    forget()
    assert drain(context) == 1
    with context.store.read() as connection:
        found = {(str(k), r): n for (k, r), n in read_totals(connection)["shop"].items()}
        stored = read_sample(connection, mine.sample_id)
    assert found == {
        ("scored", ""): 3, ("failed", "unknown_schema"): 1, ("expired", "forgotten"): 2,
        ("feedback_stored", "api_bad"): 2,
    }  # fmt: skip
    assert stored.sample.interaction.output == ""
    assert [item.evaluation.score is None for item in stored.evaluations] == [False, False]
    found = reconcile(context.redis, context.store, now_s=time.time(), window_s=86_400, bucket_s=60)
    off = {item.check for item in found.sums if not item.holds}
    assert off <= {"sent = ended + waiting"}  # no hook has sent these


def test_forgotten_sample_in_work_is_not_stored(context):
    held = Consumer(context.redis, "busy")
    held.ensure_group()
    put(context, sample(USER, SECRET))
    (entry,) = held.take(1)
    forget()
    context.redis.xadd(names.SAMPLES, entry.fields)
    drain(context)
    assert SECRET.split(maxsplit=1)[0] not in dump(context)


def test_dry_run_counts_and_changes_nothing(context, everywhere):
    before = dump(context)
    said = forget("--dry-run")
    assert "would delete" in said
    assert "samples 1" in said
    assert dump(context) == before


def test_forgetting_an_unknown_person_deletes_nothing(context):
    put(context, sample(OTHER, THEIRS))
    drain(context)
    assert "deleted: nothing" in forget()
    with context.store.read() as connection:
        payload = connection.execute(select(samples.c.payload)).scalar_one()
    assert THEIRS in payload["interaction"]["output"]
