"""Source, author and date of a passage reach the metrics that read them, also through the hook."""

import pytest
import redis

import monitor
from monitor.metrics import evaluate
from monitor.queue import names, wire

METRICS = ("evidence_quality", "citation_accuracy", "citation_quality")
RECORD = {
    "query": "How long does a refund take?",
    "contexts": [
        {"text": "Refunds take five working days.", "source": "terms.pdf",
         "published": "2020-01-31"},
        {"text": "Opened items are refunded as well.", "source": "terms.pdf", "author": "Lee",
         "year": 2024},
    ],
    "output": "Refunds take five working days [terms.pdf]. Opened items are refunded as well"
    " (Lee, 2024).",
}  # fmt: skip


@pytest.fixture
def arrived(redis_url):
    def read(**options):
        hook = monitor.Hook(app="bot", sample_rate=1.0, redis_url=redis_url, **options)
        hook.sample(**RECORD)
        assert hook.flush(60)
        hook.close(0.2)
        with redis.Redis.from_url(redis_url) as client:
            [(_, fields)] = client.xrange(names.SAMPLES)
        return wire.decode(fields).interaction

    return read


def scores(record):
    [found] = evaluate([record], METRICS)
    return {each.evaluator_name: each.score for each in found}


def test_record_scores_the_same_through_the_hook_as_from_a_file(arrived):
    through_hook = arrived().model_dump(exclude={"id", "app"}, exclude_defaults=True)
    assert scores(through_hook) == scores(RECORD)


def test_author_and_source_of_a_passage_are_masked(arrived):
    def mask(text):
        return text.replace("Lee", "#").replace("terms.pdf", "#")

    extras = [context.model_extra for context in arrived(mask=mask).contexts]
    assert extras == [
        {"source": "#", "published": "2020-01-31"}, {"source": "#", "author": "#", "year": 2024},
    ]  # fmt: skip
