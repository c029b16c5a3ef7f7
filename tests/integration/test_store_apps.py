"""Names of apps are bounded, so that one careless app cannot hurt the others."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from monitor.cli.doctor import check_store
from monitor.settings import Settings
from monitor.store.ledger import DeadLetter, read_totals
from monitor.store.sample_index import read_app_names
from monitor.store.tables import dead_letters, samples, streams
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.scoring_run import ScoringRules, result_of

NOW = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)
RULES = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=("release",))


def result(app, **interaction):
    sample = make_sample(make_interaction(app=app, **interaction), sampled_at=NOW)
    return result_of(sample, [make_evaluation()], RULES, now=NOW)


def write(store, results, dead=()):
    with store.write() as connection:
        return record(connection, results, dead, now=NOW, bucket_s=60)


def apps_with_streams(store):
    with store.read() as connection:
        return set(connection.execute(select(streams.c.app)).scalars())


def flood(store, n=230):
    return write(store, [result(f"app{k:03}") for k in range(n)])


def test_apps_beyond_the_limit_are_counted_together(store):
    assert flood(store) == 230
    names = apps_with_streams(store)
    assert len(names) == 201
    assert "(other)" in names


def test_sample_of_other_apps_keeps_its_own_name(store):
    flood(store)
    with store.read() as connection:
        query = select(samples.c.payload).where(samples.c.app == "(other)")
        rows = list(connection.execute(query).scalars())
    assert len(rows) == 30
    assert all(row["interaction"]["metadata"]["app"].startswith("app") for row in rows)


def test_known_apps_keep_their_streams_in_a_flood(store):
    write(store, [result("shop") for _ in range(3)])
    flood(store)
    write(store, [result("shop")])
    with store.read() as connection:
        of_shop = select(streams.c.n_total).where(streams.c.app == "shop")
        assert connection.execute(of_shop).scalar_one() == 4


def test_frequent_app_gets_a_slot_after_a_flood_of_names(store):
    flood(store)
    for _ in range(3):
        write(store, [result("shop") for _ in range(3)])
    assert "shop" in apps_with_streams(store)


def test_redelivered_sample_of_another_app_is_not_counted_again(store):
    flood(store)
    item = result("late")
    assert write(store, [item]) == 1
    assert write(store, [item]) == 0


def test_ledger_balances_after_a_flood_of_app_names(store):
    flood(store)
    with store.read() as connection:
        totals = read_totals(connection)
    assert sum(sum(counts.values()) for counts in totals.values()) == 230


def test_dead_letters_cannot_create_unlimited_apps(store):
    letters = [
        DeadLetter(
            entry_id=f"{k}-0", sample_id=None, app=f"app{k:03}", at=NOW, reason="not_json",
            detail="", body=b"", version="1",
        )
        for k in range(230)
    ]  # fmt: skip
    write(store, [], letters)
    with store.read() as connection:
        names = set(connection.execute(select(dead_letters.c.app)).scalars())
    assert len(names) == 201


def test_doctor_reports_too_many_app_names(store):
    flood(store)
    with store.read() as connection:
        assert len(read_app_names(connection).named) == 200
    settings = Settings(database_url=store.engine.url.render_as_string(hide_password=False))
    [found] = [item for item in check_store(settings) if item.what == "apps"]
    assert not found.ok
    assert "more than 200 names" in found.found
    assert "GROUNDWATCH_APP" in found.advice


@pytest.mark.parametrize("odd", ["\u202e", "\u200b"])
def test_app_name_shows_invisible_characters(odd):
    assert make_interaction(app=f"shop{odd}").app == "shop\ufffd"
