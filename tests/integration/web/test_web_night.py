"""The work of a night in a real browser: from the link in an alert to the recovery."""

import json
import random
import re
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from alerts.dispatch import Dispatcher, recipients_of, wiring_from
from monitor.models import Interaction
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings
from monitor.store.engine import Store, acquire
from monitor.store.labels import labels_of
from monitor.store.schema import migrate
from monitor.store.write import record
from monitor.testing import make_sample
from support.waiting import wait_until
from workers.evaluate import Evaluator
from workers.scoring_run import ScoringRules, result_of

PASSAGE = "Refunds are paid back to the original card within five working days."
GOOD = "A refund is paid back to the original card within five days."
BAD = "Wire four ducats to the lighthouse keeper of Genoa before Easter."
RULES = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=("language",))


class Bot:
    """An app whose answers in one language may be wrong, and what evaluates and announces it."""

    def __init__(self, home, slack, url, policy="point_min_n"):
        self.settings = Settings.from_env({
            "GROUNDWATCH_HOME": str(home), "GROUNDWATCH_MIN_N": "10",
            "GROUNDWATCH_STATUS_POLICY": policy, "GROUNDWATCH_METRICS": "groundedness",
            "GROUNDWATCH_WARNING_FOR_S": "0", "GROUNDWATCH_CRITICAL_FOR_S": "0",
            "GROUNDWATCH_RESOLVE_AFTER_S": "0", "GROUNDWATCH_SLACK_WEBHOOK_URL": slack.url,
            "GROUNDWATCH_REPORT_URL": url,
        })  # fmt: skip
        self.store = Store(self.settings.sql_url)
        self.channels = wiring_from(self.settings).channels
        self.lease = acquire(self.store, "scheduler", "night", ttl_s=3600)
        self.evaluator = Evaluator(
            store=self.store, settings=self.settings,
            recipients=recipients_of(self.channels),
        )  # fmt: skip
        self.scored = {}

    def answers(self, n, language, output, now):
        results = []
        for number in range(n):
            interaction = Interaction(
                id=uuid4().hex, app="shop", query=f"How long does refund {number} take?",
                contexts=[PASSAGE], output=output, tags={"language": language},
            )  # fmt: skip
            sample = make_sample(interaction, sampled_at=now - timedelta(seconds=number))
            if output not in self.scored:
                scorer = make_scorer(self.settings)
                self.scored[output] = scorer.score(interaction, key="night")
                scorer.close()
            mine = {"evaluation_id": uuid4().hex, "target_event_id": interaction.id}
            found = [
                one.model_copy(update=mine | {"evaluation_id": uuid4().hex})
                for one in self.scored[output]
            ]
            results.append(result_of(sample, found, RULES, now=now))
        with self.store.write() as connection:
            record(connection, results, now=now, bucket_s=60)

    def announce(self, now):
        self.evaluator.run(self.lease, now=now)
        Dispatcher(self.store, self.channels, random.Random(1), clock=lambda: now).run_once()


def test_incident_is_followed_in_the_browser_from_alert_to_recovery(
    open_page, start_server, slack, tmp_path
):
    store = Store(Settings.from_env({"GROUNDWATCH_HOME": str(tmp_path)}).sql_url)
    migrate(store)
    store.close()
    server = start_server(tmp_path, GROUNDWATCH_SLACK_WEBHOOK_URL=slack.url)
    bot, now = Bot(tmp_path, slack, server.url), datetime.now(UTC)
    bot.answers(20, "en", GOOD, now)
    bot.answers(20, "fr", BAD, now)
    bot.announce(now)

    page = open_page(viewport={"width": 1280, "height": 900})
    links = re.findall(
        rf"{re.escape(server.url)}/incidents/\w+", "".join(map(json.dumps, slack.messages))
    )
    page.goto(links[-1])
    assert "shop, groundedness" in page.inner_text("h1")
    assert page.locator("svg.series .span").count() == 1

    segment = page.get_by_role("row").filter(has_text="language fr")
    segment.get_by_role("link", name="20").click()
    page.wait_for_url("**/samples?*segment=language%3Dfr*")
    page.locator("table.samples a").first.click()
    for _ in range(3):
        page.get_by_role("button", name="Fail").click()
        page.get_by_text("labelled it fail").wait_for()
        labelled = page.url
        page.get_by_role("link", name="older").click()
        page.wait_for_url(lambda url, labelled=labelled: url != labelled)
    with bot.store.read() as connection:
        ids = set(re.findall(r"/sample/([^?\"]+)\?", page.content()))
        labels = [label for one in ids for label in labels_of(connection, one)]
    assert [label.human_passed for label in labels] == [False]

    page.goto(links[-1])
    page.get_by_role("button", name="Silence").click()
    page.get_by_text("Silenced by this machine until").wait_for()

    later = now + timedelta(minutes=2)
    bot.answers(300, "fr", GOOD, later)
    bot.announce(later)
    page.reload()
    assert "resolved after" in page.inner_text("main")
    assert page.get_by_role("button", name="Acknowledge").count() == 0
    bot.store.close()


def test_metric_page_blames_the_part_that_the_incident_page_blames(start_server, slack, tmp_path):
    store = Store(Settings.from_env({"GROUNDWATCH_HOME": str(tmp_path)}).sql_url)
    migrate(store)
    store.close()
    server = start_server(tmp_path)
    bot = Bot(tmp_path, slack, server.url, policy="anytime")
    now = datetime.now(UTC)
    for at, output in ((now - timedelta(minutes=10), GOOD), (now, BAD)):
        bot.answers(60, "en", output, at)
        bot.announce(at)
    bot.store.close()

    with server.client() as client:
        incident = re.search(r"/incidents/\w+", client.get("/incidents").text)[0]
        for page, said in (
            (incident, "<b>generation</b>: answers fail"),
            ("/app/shop/groundedness", "generation: answers fail"),
        ):
            wait_until(lambda page=page, said=said: said in client.get(page).text)
