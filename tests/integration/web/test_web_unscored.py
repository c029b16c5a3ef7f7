"""What pages say of samples without a score: dropped, skipped, or kept from a judge."""

import re
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from monitor.models import Evaluation
from monitor.settings import Settings
from monitor.store.engine import Store, acquire
from monitor.store.ledger import Entry, Kind, book
from monitor.store.schema import migrate
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.evaluate import Evaluator
from workers.scoring_run import ScoringRules, result_of


@pytest.fixture
def get(client_with, tmp_path):
    """Read the text of a page about an app with a sample and 7 dropped ones."""
    now, rules = datetime.now(UTC), ScoringRules(pass_score=0.7, bucket_s=60)
    settings = Settings.from_env({"GROUNDWATCH_HOME": str(tmp_path)})
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
    with store.write() as connection:
        record(connection, [result_of(sample, found, rules, now=now)], now=now, bucket_s=60)
        book(connection, [dropped])
    lease = acquire(store, "scheduler", "test", ttl_s=60)
    Evaluator(store=store, settings=settings, recipients=[]).run(lease, now=now)
    client = client_with(world=SimpleNamespace(home=str(tmp_path)))
    yield lambda path: " ".join(re.sub(r"<[^>]+>", " ", client.get(path).text).split())
    store.close()


def test_app_page_says_why_samples_were_dropped(get):
    assert "dropped by the app 7 (buffer_full 7)" in get("/app/bot")


def test_app_page_leaves_out_what_a_cascade_keeps_from_its_judge(get):
    page = get("/app/bot")
    assert "toxicity skipped screen_found_nothing 1" in page
    assert "completeness skipped" not in page


def test_samples_name_what_the_judge_was_not_asked_in_two_words(get):
    assert "skipped completeness not asked" in get("/samples")
