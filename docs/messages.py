"""
Make the pictures of messages in docs/: made-up apps, the real evaluator, alerts and channels.

Run: python docs/messages.py [--browser PATH] [--html FOLDER]. Plays two hours minute by minute,
with the clock as an argument; draws each message as Slack and as a mail program show it.
"""

from __future__ import annotations

import argparse
import base64
import html
import random
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from alerts.channels import slack
from alerts.channels.base import Channel, Receipt
from alerts.conditions import JUDGE_CHANGED, verdicts_on
from alerts.digest import digest_message
from alerts.dispatch import Dispatcher
from alerts.message import Message
from alerts.routing import Recipient
from monitor.models import Verdict
from monitor.report.digest import window_before
from monitor.settings import Settings
from monitor.store.engine import Store, acquire
from monitor.store.ledger import HookCounters, absorb
from monitor.store.schema import migrate
from monitor.store.verdicts import ReleaseMark, add_mark
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.digest import read_digest
from workers.evaluate import Evaluator
from workers.scoring_run import ScoringRules, result_of

DOCS = Path(__file__).parent
START = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
PAGE = "https://monitor.example.org"
RULES = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=())
_ID = "0123456789abcdef01234567"
_SEEN_A_SAMPLE = 20
_ASKED = ("is water damage under warranty", "Refunds are approved by our CEO within 90 days.")
_FOUND = {
    "groundedness": '0 of 1 claim is supported; not found: "Refunds are approved by our CEO"',
    "relevance": "the answer speaks of refunds, the question of water damage",
}


@dataclass(slots=True)
class Inbox(Channel):
    """A channel that keeps what it is given."""

    name: str = "inbox"
    addresses: tuple[str, ...] = ("oncall@example.org",)
    timeout_s: float = 5.0
    messages: list[Message] = field(default_factory=list)

    def send(self, message: Message, delivery_id: str) -> Receipt:
        """Keep it."""
        del delivery_id
        self.messages.append(message)
        return Receipt(answer="kept")


@dataclass(slots=True)
class Story:
    """Some apps, minute by minute, from scores to messages."""

    home: str
    inbox: Inbox = field(default_factory=Inbox)
    now: datetime = START
    conditions: list[Verdict] = field(default_factory=list)
    rng: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311
    store: Store = field(init=False)
    settings: Settings = field(init=False)
    evaluator: Evaluator = field(init=False)
    _seen: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.settings = Settings.from_env(
            {"GROUNDWATCH_HOME": self.home, "GROUNDWATCH_REPORT_URL": PAGE}
        )
        self.store = Store(self.settings.sql_url)
        migrate(self.store)
        self.evaluator = Evaluator(
            store=self.store, settings=self.settings,
            recipients=[Recipient(self.inbox.name, self.inbox.addresses[0])],
            conditions=lambda _now: self.conditions,
        )  # fmt: skip

    def minutes(
        self, n: int, *, trouble: str | None = None, version: str = "judge-6", **rates: float
    ) -> list[Message]:
        """Let *n* minutes pass with the pass rates of app__metric; return the messages."""
        lease = acquire(self.store, "scheduler", "story", ttl_s=10**9)
        assert lease is not None
        before = len(self.inbox.messages)
        for _ in range(n):
            self.now += timedelta(minutes=1)
            with self.store.write() as connection:
                results = list(self._results(rates, version))
                record(connection, results, now=self.now, bucket_s=RULES.bucket_s)
                absorb(connection, list(self._counters(rates)), bucket_s=RULES.bucket_s)
            self.conditions = [
                found.model_copy(update={"evaluated_at": self.now}) for found in self.conditions
            ]
            self.evaluator.run(lease, now=self.now, trouble=trouble)
            channels = {self.inbox.name: self.inbox}
            Dispatcher(self.store, channels, self.rng, clock=lambda: self.now).run_once()
        return self.inbox.messages[before:]

    def _results(self, rates: dict[str, float], version: str) -> Iterator[Any]:
        for _ in range(4):
            for app in dict.fromkeys(name.partition("__")[0] for name in rates):
                luck, evaluations = self.rng.random(), []
                passages = ["Water damage is covered for two years."]
                asked = make_interaction(
                    app=app.replace("_", "-"), query=_ASKED[0], output=_ASKED[1],
                    contexts=passages, timestamp=self.now - timedelta(seconds=20),
                )  # fmt: skip
                for name, rate in rates.items():
                    metric = name.partition("__")[2]
                    if name.startswith(f"{app}__"):
                        passes = luck < rate
                        evaluations.append(make_evaluation(
                            target_event_id=asked.id, evaluator_name=metric,
                            evaluator_version=version, score=0.95 if passes else 0.05,
                            explanation="all claims are supported" if passes else _FOUND[metric],
                        ))  # fmt: skip
                sample = make_sample(asked, sampled_at=asked.timestamp)
                yield result_of(sample, evaluations, RULES, now=self.now)

    def _counters(self, rates: dict[str, float]) -> Iterator[HookCounters]:
        for app in dict.fromkeys(name.partition("__")[0].replace("_", "-") for name in rates):
            n = self._seen[app] = self._seen.get(app, 0) + 4
            yield HookCounters(
                hook_id=app, app=app, host="app-1", pid=1, heartbeat_at=self.now,
                counters={"seen": _SEEN_A_SAMPLE * n, "sampled": n, "sent": n},
            )  # fmt: skip


def one_app(home: str) -> Iterator[tuple[str, Message]]:
    """Play an app that falls, falls further, takes a second metric with it, and recovers."""
    story = Story(home)
    well = {"support_bot__groundedness": 0.97, "support_bot__relevance": 0.97}
    story.minutes(240, **well)
    with story.store.write() as connection:
        add_mark(connection, ReleaseMark("support-bot", "1.1", story.now, "", story.now))
    low = well | {"support_bot__groundedness": 0.65}
    yield "first", until(story, "WARNING", **low)
    yield "escalation", until(story, "NOW CRITICAL", **low | {"support_bot__groundedness": 0.3})
    both = {"support_bot__groundedness": 0.3, "support_bot__relevance": 0.3}
    story.minutes(3, **low)
    yield "grouped", until(story, "ALSO", **both)
    yield "recovery", until(story, "RESOLVED", **well)
    story.minutes(10, **well)
    period = window_before(story.now, 86_400)
    digest = read_digest(story.store, story.settings, period, now=story.now)
    yield "digest", digest_message(digest, _ID, recipient="oncall@example.org")
    story.store.close()


def three_apps(home: str) -> Iterator[tuple[str, Message]]:
    """Play three apps whose judge is changed under them; then nobody reaches Redis."""
    story = Story(home)
    apps = ("support-bot", "docs-search", "shop-assistant")
    well = {f"{app.replace('-', '_')}__groundedness": 0.97 for app in apps}
    story.minutes(30, **well)
    story.conditions = [
        verdict
        for app in apps
        for verdict in verdicts_on(
            app,
            {JUDGE_CHANGED: "groundedness went from judge-6 to judge-7"},
            [JUDGE_CHANGED],
            window_s=3600,
            now=story.now,
        )
    ]
    yield "judge-changed", until(story, "CRITICAL", version="judge-7", **dict.fromkeys(well, 0.0))
    story.store.close()


def blind(home: str) -> Iterator[tuple[str, Message]]:
    """Play a Redis that is away."""
    story = Story(home)
    story.minutes(40, support_bot__groundedness=0.97)
    yield "blind", until(story, "WARNING", trouble="Redis has been unreachable for 2 min")
    story.store.close()


def until(story: Story, word: str, **how: Any) -> Message:
    """Go on until a message of that word comes, for three hours at most."""
    for _ in range(180):
        for message in story.minutes(1, **how):
            if message.word.startswith(word):
                return message
    raise SystemExit(f"no message {word!r} came; there were: {story.inbox.messages}")


_STYLE = """
body { margin: 0; padding: 20px; display: inline-grid; grid-template-columns: 600px 600px;
  gap: 20px; align-items: start; background: #eceff1;
  font: 15px/1.46 "Lato", "DejaVu Sans", Arial, sans-serif }
figure { margin: 0; background: #fff; border-radius: 8px; overflow: hidden; color: #1d1c1d }
figcaption { padding: 8px 16px; font-size: 13px; color: #555; border-bottom: 1px solid #ddd }
.slack { padding: 14px 18px 16px } .slack h2 { font-size: 18px; margin: 0 0 4px }
.slack p { margin: 6px 0; white-space: pre-wrap; overflow-wrap: anywhere }
.slack small { color: #616061; font-size: 12px } .slack a { color: #1264a3; text-decoration: none }
.slack code { background: #f6f6f6; border: 1px solid #ddd; border-radius: 3px; padding: 1px 4px;
  color: #c01343; font-size: 12px } .slack pre { background: #f6f6f6; padding: 8px; font-size: 12px;
  white-space: pre-wrap } iframe { border: 0; width: 600px; display: block }
.dot { display: inline-block; width: 13px; height: 13px; border-radius: 50%; vertical-align: -1px }
"""
_DOTS = {
    ":red_circle:": "#e01e5a", ":large_orange_circle:": "#e8912d",
    ":large_yellow_circle:": "#ecb22e", ":warning:": "#ecb22e",
    ":large_green_circle:": "#2eb67d", ":white_check_mark:": "#2eb67d",
    ":white_circle:": "#bbb",
    ":bar_chart:": "#1264a3",
}  # fmt: skip


def drawn_slack(blocks: list[dict[str, Any]]) -> str:
    """Draw Block Kit as Slack shows it, as far as our messages use it."""
    parts = []
    for block in blocks:
        if block["type"] == "header":
            parts.append(f"<h2>{_plain(block['text']['text'])}</h2>")
        elif block["type"] == "context":
            texts = (f"<small>{_plain(item['text'])}</small>" for item in block["elements"])
            parts.append(f"<p>{' '.join(texts)}</p>")
        else:
            text = block["text"]
            marked = text["type"] == "mrkdwn"
            parts.append(f"<p>{(_marked if marked else _plain)(text['text'])}</p>")
    return "".join(parts)


def _plain(text: str) -> str:
    return html.escape(html.unescape(text))


def _marked(text: str) -> str:
    """Turn Slack's mrkdwn into HTML; its three escapes are those of HTML."""
    text = re.sub(r"<(https?://[^|>]+)\|([^>]+)>", r'<a href="\1">\2</a>', text)
    text = re.sub(r"```\n?(.+?)```", r"<pre>\1</pre>", text, flags=re.DOTALL)
    text = re.sub(r"`([^`\n]+)`", r"<code>\1</code>", text)
    text = re.sub(r"\*([^*\n]+)\*", r"<b>\1</b>", text)
    for name, colour in _DOTS.items():
        text = text.replace(name, f'<span class="dot" style="background:{colour}"></span>')
    return text


def drawn(message: Message) -> str:
    """Draw one message as Slack and as a mail program show it, side by side."""
    blocks = slack.payload(message, _ID)["blocks"]
    mail = message.html
    for picture in message.pictures:
        data = base64.b64encode(picture.png).decode()
        mail = mail.replace(f"cid:{picture.cid}", f"data:image/png;base64,{data}")
    return (
        f"<!doctype html><meta charset=utf-8><style>{_STYLE}</style>"
        "<figure><figcaption>Slack</figcaption>"
        f"<div class=slack>{drawn_slack(blocks)}</div></figure>"
        f"<figure><figcaption>Email · {html.escape(message.subject)}</figcaption>"
        f'<iframe srcdoc="{html.escape(mail)}"></iframe></figure>'
    )


def take(pages: dict[str, str], browser: str) -> None:
    """Write a picture of each page."""
    fit = """() => { for (const f of document.querySelectorAll('iframe'))
        f.style.height = f.contentDocument.documentElement.scrollHeight + 'px' }"""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1260, "height": 400})
        for name, text in pages.items():
            page.set_content(text, wait_until="load")
            page.evaluate(fit)
            place = DOCS / f"message-{name}.png"
            page.locator("body").screenshot(path=place)
            with Image.open(place) as picture:  # few colours: a third of the size
                picture.convert("RGB").quantize(128).save(place, optimize=True)
        chromium.close()


def main() -> None:
    """Make them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browser", default="chromium", help="Where Chromium is.")
    parser.add_argument("--html", metavar="FOLDER", help="Leave the drawn messages there as well.")
    asked = parser.parse_args()
    pages = {}
    for play in (one_app, three_apps, blind):
        with tempfile.TemporaryDirectory() as home:
            pages |= {name: drawn(message) for name, message in play(home)}
    if asked.html:
        for name, text in pages.items():
            Path(asked.html, f"{name}.html").write_text(text, encoding="utf-8")
    take(pages, shutil.which(asked.browser) or asked.browser)


if __name__ == "__main__":
    main()
