"""
Make the pictures of the pages in docs/: a week of made-up traffic, and a browser that looks.

Run: python docs/pictures.py [--only-store HOME]. Plays a week of the demo's bot through the
real scorer, store, evaluator and alerts, with the clock as an argument; serves it, and writes one
picture for each page. With --only-store it leaves the store in that folder instead.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from io import BytesIO
from itertools import count
from pathlib import Path
from uuid import uuid4

from PIL import Image
from playwright.sync_api import sync_playwright

from alerts.dispatch import Dispatcher, recipients_of, wiring_from
from alerts.queries import incidents_since, open_incidents
from alerts.routing import parse_all
from alerts.silencing import add_silence
from alerts.store import acknowledge
from monitor.demo.shop import Bot, load_articles
from monitor.models import Evaluation, Interaction
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings
from monitor.store.engine import Store, acquire, release
from monitor.store.ledger import HookCounters, absorb
from monitor.store.samples import worst_samples
from monitor.store.schema import migrate
from monitor.store.verdicts import ReleaseMark, add_mark
from monitor.store.write import record
from monitor.testing import make_sample
from monitor.testing.receivers import SlackReceiver
from monitor.web.time_range import (
    app_path,
    incident_path,
    metric_path,
    releases_path,
    samples_path,
)
from workers.evaluate import Evaluator
from workers.insights import Explainer
from workers.scoring_run import ScoringRules, result_of

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.page import served_page
from support.redis_server import RedisServer

IMAGES = Path(__file__).parent / "images"
_COLOURS = 192
_HIGHEST = 1500  #: pixels; the rest of a longer page is left out
_DAYS = 7
_SPOIL, _NOTICE = timedelta(hours=3), timedelta(minutes=5)
_COARSE, _FINE, _FINE_FROM = timedelta(minutes=30), timedelta(minutes=6), timedelta(hours=4)
_RULES = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=("language", "release"))
_SEEN_A_SAMPLE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """One made-up app: how much it is asked, when, and when its retrieval breaks for whom."""

    name: str
    a_minute: float
    languages: tuple[str, ...] = ("en",)
    closed: range = range(0)  #: hours, counted back from the end, of each day
    broken: tuple[tuple[timedelta, timedelta, str], ...] = ()  #: from, to before the end; language
    release: tuple[str, str, timedelta] = ("2.3.0", "2.3.0", timedelta(0))

    def is_broken(self, before_end: timedelta, language: str) -> bool:
        """Say whether the retrieval is broken for *language* so long before the end."""
        return any(
            start >= before_end > end and of in {"", language} for start, end, of in self.broken
        )


APPS = (
    App(
        name="support-bot", a_minute=1.2, languages=("en", "fr", "de", "fr"),
        broken=((_SPOIL, timedelta(0), "fr"), (timedelta(days=3), timedelta(days=2, hours=21), "")),
        release=("2.3.0", "2.4.0", _SPOIL + _NOTICE),
    ),
    App(name="docs-search", a_minute=0.7, closed=range(9, 14)),
    App(name="shop-assistant", a_minute=0.6),
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Story:
    """A week, step by step, into a store."""

    store: Store
    settings: Settings
    end: datetime
    rng: random.Random = field(default_factory=lambda: random.Random(5))  # noqa: S311
    _seen: dict[str, int] = field(default_factory=dict)

    def play(self) -> None:
        """Tell it from the beginning to the end."""
        wiring = wiring_from(self.settings)
        lease = acquire(self.store, "scheduler", "story", ttl_s=10**9)
        assert lease is not None
        evaluator = Evaluator(
            store=self.store, settings=self.settings,
            recipients=recipients_of(wiring.channels),
        )  # fmt: skip
        explainer = Explainer(store=self.store, settings=self.settings)
        self._releases()
        explained = now = self.end - timedelta(days=_DAYS)
        while now < self.end:
            before = now
            now = min(self.end, now + (_FINE if self._is_fine(now) else _COARSE))
            self._traffic(before, now)
            evaluator.run(lease, now=now)
            Dispatcher(self.store, wiring.channels, self.rng, clock=lambda at=now: at).run_once()
            if now - explained > timedelta(hours=24) or now == self.end:
                explainer.run(lease, now=now)
                explained = now
        release(self.store, lease)  # a scheduler may go on from here
        self._people()

    def _is_fine(self, now: datetime) -> bool:
        return self.end - now < _FINE_FROM or any(
            start + _COARSE > self.end - now > end - _COARSE
            for app in APPS for start, end, _ in app.broken
        )  # fmt: skip

    def _traffic(self, start: datetime, end: datetime) -> None:
        results, counters = [], []
        for app in APPS:
            asked = list(self._asked(app, start, end))
            for at in asked:
                interaction = self._interaction(app, at)
                sample = make_sample(interaction, sampled_at=at, sample_rate=1 / _SEEN_A_SAMPLE)
                results.append(result_of(sample, _scored(interaction), _RULES, now=end))
            self._seen[app.name] = self._seen.get(app.name, 0) + len(asked)
            n = self._seen[app.name]
            counters.append(HookCounters(
                hook_id=app.name, app=app.name, host="app-1", pid=1, heartbeat_at=end,
                counters={"seen": _SEEN_A_SAMPLE * n, "sampled": n, "sent": n},
            ))  # fmt: skip
        with self.store.write() as connection:
            record(connection, results, now=end, bucket_s=_RULES.bucket_s)
            absorb(connection, counters, bucket_s=_RULES.bucket_s)

    def _asked(self, app: App, start: datetime, end: datetime) -> Iterator[datetime]:
        at = start
        while True:
            at += timedelta(minutes=self.rng.expovariate(app.a_minute))
            if at >= end:
                return
            if (self.end - at) // timedelta(hours=1) % 24 not in app.closed:
                yield at

    def _interaction(self, app: App, at: datetime) -> Interaction:
        language = self.rng.choice(app.languages)
        bot = _bot()
        bot.index.broken = app.is_broken(self.end - at, language)
        question = bot.ask()
        passages, answer = bot.answer(question)
        before, after, changed = app.release
        return Interaction(
            id=f"{app.name}-{next(_numbers):05}", app=app.name, query=question, contexts=passages,
            output=answer, timestamp=at,
            release=after if self.end - at < changed else before, tags={"language": language},
        )  # fmt: skip

    def _releases(self) -> None:
        with self.store.write() as connection:
            for app in APPS:
                before, after, changed = app.release
                if after != before:
                    at = self.end - changed
                    add_mark(connection, ReleaseMark(app.name, after, at, "new retriever", at))

    def _people(self) -> None:
        with self.store.write() as connection:
            for incident in open_incidents(connection)[:1]:
                acknowledge(
                    connection, incident.group_id or "", by="ann", note="looking at the index",
                    now=self.end, until=self.end + timedelta(hours=8),
                )  # fmt: skip
            add_silence(
                connection, parse_all(["app=docs-search", "severity=warning"]), now=self.end,
                ends_at=self.end + timedelta(hours=3), author="ann", comment="the index is rebuilt",
            )  # fmt: skip


@cache
def _bot() -> Bot:
    return Bot(load_articles(), seed=11)


@cache
def _scorer() -> object:
    return make_scorer(Settings.from_env({}))


_numbers = count(1)
_known: dict[tuple[str, str, str], tuple[Evaluation, ...]] = {}


def _scored(interaction: Interaction) -> tuple[Evaluation, ...]:
    """Score what was said before only once: the bot knows few articles."""
    passages = "\n".join(context.text for context in interaction.contexts)
    key = (interaction.query, passages, interaction.output)
    if key not in _known:
        _known[key] = tuple(_scorer().score(interaction, key="story"))  # type: ignore[attr-defined]
    return tuple(
        evaluation.model_copy(
            update={"evaluation_id": str(uuid4()), "target_event_id": interaction.id}
        )
        for evaluation in _known[key]
    )


def build(home: str) -> Story:
    """Play the week into a store in *home*."""
    with SlackReceiver() as slack:
        settings = Settings.from_env({
            "GROUNDWATCH_HOME": home, "GROUNDWATCH_SLACK_WEBHOOK_URL": slack.url,
        })  # fmt: skip
        store = Store(settings.sql_url)
        migrate(store)
        story = Story(store=store, settings=settings, end=datetime.now(UTC))
        story.play()
    return story


def paths(story: Story) -> dict[str, str]:
    """Name the pages that are worth a picture, with their addresses."""
    with story.store.read() as connection:
        newest = incidents_since(connection, story.end - timedelta(days=_DAYS))[0]
        worst = worst_samples(
            connection, app="support-bot", metric="groundedness",
            since=story.end - timedelta(hours=1), limit=1,
        )  # fmt: skip
    failed = {"app": newest.app, "metric": newest.metric, "outcome": "failed"}
    return {
        "overview": "/",
        "incident": incident_path(newest.incident_id),
        "app": app_path(newest.app),
        "releases": releases_path(newest.app),
        "metric": f"{metric_path(newest.app, newest.metric)}?span=24h",
        "samples": samples_path(**failed),
        "sample": samples_path(worst[0].sample_id, **failed),
        "labels": f"/labels?app={newest.app}&metric={newest.metric}",
        "incidents": "/incidents",
        "silences": "/silences",
        "alert-quality": "/noise",
        "channels": "/channels",
        "settings": "/config",
    }


def take(url: str, pages: dict[str, str], browser: str) -> None:
    """Write a picture of each page, wide and light; and of the incident narrow and dark."""
    looks = [(name, path, 1000, _HIGHEST, "light") for name, path in pages.items()]
    looks.append(("phone", pages["incident"], 390, 780, "dark"))
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for name, path, width, highest, scheme in looks:
            context = chromium.new_context(
                viewport={"width": width, "height": 400}, color_scheme=scheme
            )
            page = context.new_page()
            page.goto(url + path)
            while "Still computing" in page.content():
                page.wait_for_timeout(500)
                page.reload()
            whole = Image.open(BytesIO(page.screenshot(full_page=True))).convert("RGB")
            drawn = whole.crop((0, 0, width, min(highest, whole.height)))
            # A palette is enough for a page, and a third of the size.
            drawn.quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
                IMAGES / f"page-{name}.png", optimize=True
            )
            context.close()
        chromium.close()


def main() -> None:
    """Make them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only-store", metavar="HOME", help="Leave the store there; no pictures.")
    parser.add_argument("--browser", default="chromium", help="Where Chromium is.")
    asked = parser.parse_args()
    if asked.only_store:
        build(asked.only_store).store.close()
        return
    with tempfile.TemporaryDirectory() as home, RedisServer(Path(home), durable=False) as redis:
        story = build(home)
        (Path(home) / "redis.url").write_text(redis.url)  # as `groundwatch up` leaves it
        with served_page(home) as page:
            take(page.url, paths(story), shutil.which(asked.browser) or asked.browser)
        story.store.close()


if __name__ == "__main__":
    main()
