"""What pages say of samples without a score: dropped, skipped, or kept from a judge."""

import re
from datetime import UTC, datetime
from html import unescape
from types import SimpleNamespace

import pytest

from monitor.models import ErrorInfo, Evaluation
from monitor.queue.consumer import connect
from monitor.settings import Settings
from monitor.store.engine import Store, acquire
from monitor.store.ledger import Entry, Kind, book
from monitor.store.schema import migrate
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.evaluate import Evaluator
from workers.scoring_run import ScoringRules, result_of
from workers.self_monitoring import QueueWatch, VitalsReader


@pytest.fixture
def get(client_with, tmp_path, redis_url):
    """Read pages about an app with three samples, one of them failed, and seven dropped ones."""
    now, rules = datetime.now(UTC), ScoringRules(pass_score=0.7, bucket_s=60)
    settings = Settings.from_env(
        {"GROUNDWATCH_HOME": str(tmp_path), "GROUNDWATCH_WARNING_FOR_S": "0"}
    )
    store = Store(settings.sql_url)
    migrate(store)
    sample = make_sample(make_interaction(app="bot"), sampled_at=now)
    reasons = {"completeness": "not_asked", "toxicity": "screen_found_nothing"}
    skipped = [
        Evaluation.skipped(
            target_event_id=sample.interaction.id, evaluator_name=name, evaluator_version="1",
            reason=reason,
        )
        for name, reason in reasons.items()
    ]  # fmt: skip
    found = [make_evaluation(target_event_id=sample.interaction.id), *skipped]
    dropped = Entry("bot", int(now.timestamp()), Kind.DROPPED, "buffer_full", 7)
    failure = ErrorInfo(type="TimeoutError", message="late", code="timeout")
    named = {"evaluator_name": "completeness", "evaluator_version": "1"}
    broken = make_sample(make_interaction(id="2", app="bot"), sampled_at=now)
    half = make_sample(make_interaction(id="3", app="bot"), sampled_at=now)
    failed = [Evaluation.failed(target_event_id=i, error=failure, **named) for i in "23"]
    scored = make_evaluation(target_event_id="3")
    results = [
        result_of(sample, found, rules, now=now),
        result_of(broken, failed[:1], rules, now=now),
        result_of(half, [failed[1], scored], rules, now=now),
    ]
    with store.write() as connection:
        record(connection, results, now=now, bucket_s=60)
        book(connection, [dropped])
    lease = acquire(store, "scheduler", "test", ttl_s=60)
    redis = connect(redis_url)
    vitals = VitalsReader(store=store, settings=settings, queue=QueueWatch(redis))
    evaluator = Evaluator(store=store, settings=settings, recipients=[], conditions=vitals)
    evaluator.run(lease, now=now)
    redis.close()
    client = client_with(world=SimpleNamespace(home=str(tmp_path)))
    yield lambda path: client.get(path).text
    store.close()


def text_of(page):
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def facts(page, name):
    """Return the links of a fact, each with its number."""
    [shown] = re.findall(rf"<dt>{name}</dt><dd>(.*?)</dd>", page, re.DOTALL)
    return [(unescape(href), int(n)) for href, n in re.findall(r'<a href="([^"]+)">(\d+)<', shown)]


def test_app_page_says_why_samples_were_dropped(get):
    assert "dropped by the app 7 (buffer_full 7)" in text_of(get("/app/bot"))


def test_app_page_leaves_out_what_a_cascade_keeps_from_its_judge(get):
    page = text_of(get("/app/bot"))
    assert "toxicity skipped screen_found_nothing 1" in page
    assert "completeness skipped" not in page


def test_samples_name_what_the_judge_was_not_asked_in_two_words(get):
    assert "skipped completeness not asked" in text_of(get("/samples"))


def test_numbers_of_samples_without_a_score_lead_to_as_many(get):
    shown = facts(get("/"), "not scored")
    assert [n for _, n in shown] == [1, 1]  # the failed one, and why
    assert [len(re.findall('href="/sample/', get(href))) for href, _ in shown] == [1, 1]


@pytest.mark.parametrize("page", ["/", "/app/bot"])
def test_sampled_interactions_are_no_link_where_some_were_dropped(get, page):
    assert facts(get(page), "sampled") == []


def test_incidents_of_the_monitor_itself_link_to_no_metric(get):
    paths = {*re.findall(r'href="(/incidents/\w+)"', get("/incidents"))}
    pages = "".join(map(get, [*paths, "/noise"]))
    assert "monitor:samples_dropped" in pages
    assert "/app/bot/monitor" not in pages
