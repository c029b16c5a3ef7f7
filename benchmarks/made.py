"""Made-up texts of usual size, and samples with their scores, as workers hand them to the store."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, count
from typing import Any

from monitor.demo.shop import load_articles
from monitor.models import Evaluation
from monitor.queue.wire import sample_id
from monitor.settings import Settings
from monitor.store.engine import Lease, Store, acquire
from monitor.store.write import Result, record
from monitor.testing import make_interaction, make_sample
from workers.context import Components
from workers.evaluate import Evaluator
from workers.insights import Explainer
from workers.scoring_run import ScoringRules, result_of

RULES = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=Settings().segments)
_ZIPF = [f"word{number}" for number in range(20_000)]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What texts and tags are made of; each tag has one of its values by chance."""

    words: Sequence[str] = ()  #: without any, texts are `realistic`
    cum_weights: Sequence[float] | None = None
    lengths: tuple[int, ...] = ()  #: words of the question, of the answer, and of each passage
    apps: int
    users: int
    tags: Mapping[str, Sequence[str]]
    explanation: str | None = None


#: 41 words in all, which are as frequent as in natural texts.
SHORT = Shape(
    words=_ZIPF, cum_weights=list(accumulate(1 / (n + 1) for n in range(len(_ZIPF)))),
    lengths=(6, 15, 20), apps=20, users=5_000, tags={"language": ["en"] * 999 + ["fr"]},
)  # fmt: skip
#: 2.5 kB, six dimensions of segments as by default.
LONG = Shape(
    apps=1, users=10_000,
    tags={
        "model": ["large", "small"], "prompt_version": ["7"], "route": ["chat", "mail", "search"],
        "language": ["en", "de", "fr", "es"],
    },
    explanation="The passages say so in one sentence that is quoted here.",
)  # fmt: skip


_ARTICLES = load_articles()


def realistic(number: int) -> dict[str, Any]:
    """Make 2.5 kB: a question, six passages, an answer of three parts, one of them invented."""
    chance = random.Random(number)
    articles = chance.sample(_ARTICLES, 6)
    first, second, third = (chance.choice(article.questions) for article in articles[:3])
    return {
        "query": f"{first.ask} My order is {number}. {second.ask}",
        "contexts": [article.text for article in articles],
        "output": f"{first.answer} {second.answer} For order {number}: {third.invented}",
    }


class Maker:
    """Makes samples of a shape, one after the other."""

    def __init__(self, shape: Shape, seed: int = 1) -> None:
        self._shape, self._chance, self._numbers = shape, random.Random(seed), count()

    def result(self, at: datetime, release: str = "v0", good: float = 8.0) -> Result:
        """Make a sample of that moment with two scores; below 8 *good* makes them worse."""
        shape, chance, number = self._shape, self._chance, next(self._numbers)
        made = realistic(number)
        asked, said, *read = [
            " ".join(chance.choices(shape.words, cum_weights=shape.cum_weights, k=length))
            for length in shape.lengths
        ] or [made["query"], made["output"], *made["contexts"]]
        interaction = make_interaction(
            app=f"app-{number % shape.apps}", query=asked, output=said, contexts=read,
            timestamp=at, user_id=f"user-{chance.randrange(shape.users)}",
            session_id=f"session-{number // 5}", trace_id=f"{chance.getrandbits(128):032x}",
            release=release, environment="production",
            tags={tag: chance.choice(values) for tag, values in shape.tags.items()},
        )  # fmt: skip
        scores = [
            Evaluation(
                target_event_id=interaction.id, evaluator_name=name, evaluator_version="local-1",
                score=round(chance.betavariate(good, 1.2), 3), explanation=shape.explanation,
                confidence=0.9, duration_ms=1.0, timestamp=at,
            )
            for name in ("groundedness", "relevance")
        ]  # fmt: skip
        key = sample_id(round(at.timestamp() * 1000), chance.getrandbits(70))
        sample = make_sample(interaction, sample_id=key, sampled_at=at)
        return result_of(sample, scores, RULES, now=at)


def write(store: Store, results: Sequence[Result], batch: int = 50) -> None:
    """Write samples in the order of their times, *batch* in a transaction, as workers do."""
    for first in range(0, len(results), batch):
        part = results[first : first + batch]
        with store.write() as connection:
            now = part[-1].scored.sample.sampled_at
            record(connection, part, now=now, bucket_s=RULES.bucket_s)


def scheduler_of(context: Components) -> tuple[Evaluator, Explainer, Lease]:
    """Return what a scheduler computes statuses and insights with, and its lease."""
    store, settings = context.store, context.settings
    evaluator = Evaluator(
        store=store, settings=settings,
        recipients=context.wiring.plan,
    )  # fmt: skip
    lease = acquire(store, "scheduler", "benchmark", ttl_s=1e6)
    assert lease is not None
    return evaluator, Explainer(store=store, settings=settings), lease
