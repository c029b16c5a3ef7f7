"""Hostile records through the real stream and worker: each ends once, none as a wrong score."""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select
from typer.testing import CliRunner

from monitor.cli.app import app as cli
from monitor.queue import names
from monitor.queue.wire import encode
from monitor.settings import Settings
from monitor.store.ledger import read_totals
from monitor.store.tables import dead_letters, evaluations, samples
from monitor.testing import make_interaction, make_sample
from workers.context import Components
from workers.operations import reconcile

DAY = timedelta(days=1)
SCORED, INVALID, NEWER = ("scored", ""), ("failed", "invalid_record"), ("failed", "unknown_schema")


@pytest.fixture
def context(redis_url, store, monkeypatch):
    url = store.engine.url.render_as_string(hide_password=False)
    monkeypatch.setenv("GROUNDWATCH_REDIS_URL", redis_url)
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", url)
    context = Components(Settings.from_env())
    yield context
    context.close()


def entry(**changes):
    """Make the fields of a good entry; a change of the interaction, or of the sample with 's_'."""
    body = json.loads(encode(make_sample(make_interaction(app="x")))[b"body"])
    for name, value in changes.items():
        if name.startswith("s_"):
            body[name[2:]] = value
        else:
            body["interaction"][name] = value
    return {"v": "1", "app": "x", "body": json.dumps(body)}


def good():
    return entry()["body"]


def raw(body, v="1"):
    return {"v": v, "app": "x", "body": body}


def deep(opening, closing):
    return good().replace('"metadata": {}', f'"metadata": {opening}{closing}')


def at(moment):
    return moment.isoformat()


def cases():
    now = datetime.now(UTC)
    return {
        "100 kB": ([entry(output="Five days. " * 9_000)], SCORED),
        "300 kB": ([entry(output="Five days. " * 27_000)], SCORED),
        "10 MB": ([entry(output="Five days. " * 900_000)], ("failed", "too_large")),
        "10 MB that is not JSON": ([raw("x" * 10_000_000)], ("failed", "too_large")),
        "NUL in a text": ([entry(output="Five\0days.")], SCORED),
        "NUL in an id": ([entry(id="a\0b")], INVALID),
        "NUL in a tag": ([entry(tags={"a\0": "b\0"})], SCORED),
        "lone surrogate": ([raw(good().replace("refund", "\\ud800"))], INVALID),
        "bidi": ([entry(output="Five \u202edays\u2066.")], SCORED),
        "10,000 deep": ([raw(deep('{"a":' * 10_000 + "1", "}" * 10_000))], INVALID),
        "10,000 open": ([raw("[" * 10_000)], INVALID),
        "wrong types": ([entry(output=7)], INVALID),
        "list as a tag": ([entry(tags=["a"])], INVALID),
        "no output": ([entry(output=None)], INVALID),
        "rate of 0": ([entry(s_sample_rate=0)], INVALID),
        "rate of 2": ([entry(s_sample_rate=2)], INVALID),
        "rate that is not a number": ([entry(s_sample_rate=float("nan"))], INVALID),
        "tiny rate": ([entry(s_sample_rate=5e-324)], INVALID),
        "huge sequence": ([entry(s_sequence=10**30)], SCORED),
        "the same twice": ([*[raw(good())] * 2], SCORED),
        "newer, twice": ([*[raw(good(), v="2")] * 2], NEWER),
        "a day ahead": ([entry(timestamp=at(now + DAY))], SCORED),
        "a day behind": ([entry(timestamp=at(now - DAY))], SCORED),
        "the year 1": ([entry(timestamp="0001-01-01T00:00:00+14:00")], SCORED),
        "the year 9999": ([entry(timestamp="9999-12-31T23:59:59-14:00")], SCORED),
        "no zone": ([entry(timestamp="2026-01-01T00:00:00")], INVALID),
        "newer schema": ([raw("{}", v="99")], NEWER),
        "huge version": ([raw("{}", v="9" * 5_000)], INVALID),
        "version in words": ([raw(good(), v="one")], INVALID),
        "no version": ([{"app": "x", "body": good()}], INVALID),
        "no body": ([{"v": "1", "app": "x"}], INVALID),
        "empty body": ([raw("")], INVALID),
        "not UTF-8": ([raw(b"\xff\xfe\x00")], INVALID),
        "null": ([raw("null")], INVALID),
        "long names": ([entry(id="i" * 201)], INVALID),
        "long sample id": ([entry(s_sample_id="s" * 65)], INVALID),
        "SQL in names": ([entry(id="'; DROP TABLE groundwatch_samples; --")], SCORED),
        "3,000 passages": ([entry(contexts=["Five days."] * 3_000)], SCORED),
        "unknown keys": ([entry(__class__="os.system", colour="blue")], SCORED),
        "unknown keys of a sample": ([entry(s_colour="blue")], INVALID),
    }  # fmt: skip


def drain(context):
    made = context.scoring_run(lambda: True)
    made.idle_after_s = 0.1
    return made.run(budget_s=90)


def test_every_hostile_record_ends_once_and_stops_no_worker(context):
    table = cases()
    names_of = {f"case {i}": name for i, name in enumerate(table)}
    for app, name in names_of.items():
        for fields in table[name][0]:
            context.redis.xadd(names.SAMPLES, mine(fields, app))
    context.redis.xadd(names.SAMPLES, encode(make_sample(make_interaction(app="good"))))
    drain(context)
    with context.store.read() as connection:
        found = read_totals(connection)
        wrong = connection.execute(
            select(func.count()).where(evaluations.c.status != "completed",
                                       evaluations.c.score.is_not(None))
        ).scalar_one()  # fmt: skip
    ended = {
        names_of.get(app, app): {(str(kind), reason): n for (kind, reason), n in counted.items()}
        for app, counted in found.items()
    }
    assert ended == {name: {ending: 1} for name, (_, ending) in table.items()} | {
        "good": {SCORED: 1}
    }
    assert wrong == 0
    assert context.redis.xlen(names.SAMPLES) == 0
    off = {item.check for item in look(context).sums if not item.holds}
    assert off <= {"sent = ended + waiting"}  # nobody has counted these as sent


def mine(fields, app):
    """Give the record to an app of its own, in the entry and, where it is JSON, in the body."""
    fields = {name: value for name, value in fields.items() if name != "app"} | {"app": app}
    if isinstance(fields.get("body"), str):
        fields["body"] = fields["body"].replace('"app": "x"', f'"app": "{app}"')
        fields["body"] = fields["body"].encode("utf-8", "surrogatepass")
    return fields


def look(context):
    return reconcile(
        context.redis, context.store, now_s=time.time(), window_s=86_400 * 2, bucket_s=60
    )


@pytest.fixture
def groundwatch():
    def run(*arguments, code=0):
        done = CliRunner().invoke(cli, arguments)
        assert done.exit_code == code, done.output
        return done.output

    return run


@pytest.fixture
def set_aside(context):
    """An entry of a newer version, set aside by an older worker, and counted as failed."""
    fields = entry(output="Five \x1b[31mdays.")
    sample_id = json.loads(fields["body"])["sample_id"]
    context.redis.xadd(names.SAMPLES, fields | {"v": "2"})
    drain(context)
    with context.store.read() as connection:
        found = connection.execute(select(dead_letters.c.entry_id)).scalar_one()
    return found, sample_id


def count(context, table):
    with context.store.read() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def totals(context):
    with context.store.read() as connection:
        found = read_totals(connection)["x"]
    return {(str(kind), reason): n for (kind, reason), n in found.items() if n}


def test_dead_letter_can_be_listed_and_shown_safely(context, set_aside, groundwatch):
    entry_id, sample_id = set_aside
    assert "unknown_schema" in groundwatch("poison", "ls")
    shown = groundwatch("poison", "show", entry_id[:8])
    assert "upgrade the workers" in shown
    assert sample_id in shown
    assert "\x1b" not in shown
    assert sample_id in groundwatch("poison", "show", "--whole", entry_id)


def test_retried_entry_is_counted_once_by_its_outcome(context, set_aside, groundwatch):
    entry_id, _ = set_aside
    with context.store.write() as connection:  # as if the workers were upgraded
        connection.execute(dead_letters.update().values(version="1"))
    groundwatch("poison", "retry", entry_id)
    assert totals(context) == {}
    assert count(context, dead_letters) == 0
    assert drain(context) == 1
    assert totals(context) == {SCORED: 1}
    assert {i.check for i in look(context).sums if not i.holds} <= {"sent = ended + waiting"}


def test_retried_entry_that_fails_again_is_counted_once(context, set_aside, groundwatch):
    groundwatch("poison", "retry", set_aside[0])
    drain(context)
    assert totals(context) == {NEWER: 1}
    assert count(context, dead_letters) == 1


def test_interrupted_retry_can_be_repeated(context, set_aside, groundwatch):
    from monitor.store.ledger import begin_retry, find_dead_letter

    with context.store.write() as connection:
        begin_retry(connection, find_dead_letter(connection, set_aside[0]), bucket_s=60)
    assert "retrying" in groundwatch("poison", "ls")
    groundwatch("poison", "retry", set_aside[0])
    drain(context)
    assert totals(context) == {NEWER: 1}


def test_dropped_entry_is_emptied_and_stays_counted(context, set_aside, groundwatch):
    groundwatch("poison", "drop", set_aside[0])
    assert "no dead letters" in groundwatch("poison", "ls")
    assert totals(context) == {NEWER: 1}
    with context.store.read() as connection:
        assert connection.execute(select(dead_letters.c.body)).scalar_one() == b""
    assert {i.check for i in look(context).sums if not i.holds} <= {"sent = ended + waiting"}


def test_unknown_entry_is_named_in_one_line(context, groundwatch):
    done = CliRunner().invoke(cli, ["poison", "drop", "nothing"])
    assert "no entry is named" in str(done.exception)


def test_internal_error_on_one_sample_does_not_stop_others(context):
    for app in ("x", "y"):
        context.redis.xadd(names.SAMPLES, encode(make_sample(make_interaction(app=app))))
    made = context.scoring_run(lambda: True)
    made.idle_after_s, made.scorer = 0.05, Breaks(made.scorer)
    made.run(budget_s=10)
    assert totals(context) == {("failed", "internal_error"): 1}
    assert count(context, samples) == 1


class Breaks:
    """A scorer with a mistake that shows with one app only."""

    def __init__(self, inner):
        self._inner, self.concurrency = inner, inner.concurrency

    def score(self, interaction, *, key):
        if interaction.app == "x":
            raise ZeroDivisionError
        return self._inner.score(interaction, key=key)
