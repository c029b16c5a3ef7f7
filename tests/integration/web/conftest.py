"""A real server process over a store with real evaluations; one app is broken, one is hostile."""

import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import sync_playwright
from starlette.testclient import TestClient

from alerts.routing import Recipient
from monitor.models import Interaction
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings
from monitor.store.engine import Store, acquire
from monitor.store.schema import migrate
from monitor.store.verdicts import ReleaseMark, add_mark
from monitor.store.write import record
from monitor.testing import make_sample
from monitor.web.app import make_app
from monitor.web.site import Site
from support.receivers import SlackReceiver
from workers.evaluate import Evaluator
from workers.insights import Explainer
from workers.scoring_run import ScoringRules, result_of

NAMES = ("chromium", "chromium-browser", "google-chrome")
SETUP = Path(__file__).parents[3] / ".venv" / "chromium"
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'{{7*7}}\u202e"
WIDE = "W" * 120
PASSAGE = "Refunds are paid back to the original card within five working days."
RULES = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=("language",))
SETTINGS = {
    "GROUNDWATCH_MIN_N": "10",
    # Twelve samples are enough for a status.
    "GROUNDWATCH_STATUS_POLICY": "point_min_n",
    "GROUNDWATCH_WARNING_FOR_S": "0",
    "GROUNDWATCH_CRITICAL_FOR_S": "0",
    # What was evaluated before the server started is not stale while tests run.
    "GROUNDWATCH_EVALUATE_EVERY_S": "600",
}


@dataclass
class World:
    """The store, and one sample of each app."""

    store: Store
    home: str
    samples: dict[str, str]
    incident_id: str = ""


@dataclass
class Server:
    """A running server and where it is."""

    url: str
    process: subprocess.Popen

    def client(self, **options):
        return httpx.Client(base_url=self.url, timeout=100, **options)


def _interaction(app, number, output, text, odd):
    asked = (app, number) != ("support-bot", 11)
    return Interaction(
        id=f"{app}-{number}", app=app,
        query=f"How long does a refund take? {text[:80]}" if asked else None,
        contexts=[{"text": text, "source": "terms.pdf", "tenant": "x"}], output=output,
        tags={"language": ("en", "fr", odd)[number % 3]}, trace_id=f"{app[:20]}-{number}",
        session_id=f"{app}-s{number // 3}",
    )  # fmt: skip


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    answers = {
        "support-bot": ("A refund is paid back to the original card.", PASSAGE),
        "shop": ("Wire four ducats to the lighthouse keeper of Genoa before Easter.", PASSAGE),
        f"bots/{HOSTILE}": (f"A refund takes five days. {HOSTILE}", HOSTILE + PASSAGE),
    }  # fmt: skip
    marks = (("shop", "v12"), (f"bots/{HOSTILE}", HOSTILE))
    yield from _world(tmp_path_factory.mktemp("web"), answers, marks)


@pytest.fixture(scope="session")
def wide_world(tmp_path_factory):
    """A store in which every name is one long word without a place to break it."""
    answers = {WIDE: (f"Wire four ducats to {WIDE} of Genoa before Easter.", f"{PASSAGE} {WIDE}")}
    yield from _world(tmp_path_factory.mktemp("wide"), answers, ((WIDE, WIDE),), odd=WIDE)


def _world(home, answers, marks, odd=HOSTILE):
    settings = Settings.from_env({**SETTINGS, "GROUNDWATCH_HOME": str(home)})
    store = Store(settings.sql_url)
    migrate(store)
    now = datetime.now(UTC)
    samples, results = {}, []
    scorer = make_scorer(settings)
    for app, (output, text) in answers.items():
        for number in range(12):
            sample = make_sample(
                _interaction(app, number, output, text, odd),
                sampled_at=now - timedelta(minutes=number),
            )
            samples.setdefault(app, sample.sample_id)
            found = scorer.score(sample.interaction, key=sample.sample_id)
            results.append(result_of(sample, found, RULES, now=now))
    scorer.close()
    with store.write() as connection:
        record(connection, results, now=now, bucket_s=60)
    lease = acquire(store, "scheduler", "test", ttl_s=600)
    evaluator = Evaluator(
        store=store, settings=settings,
        recipients=[Recipient("slack", "")],
    )  # fmt: skip
    evaluator.run(lease, now=now - timedelta(seconds=5))
    evaluator.run(lease, now=now)
    deployed = now - timedelta(minutes=2)
    with store.write() as connection:
        for app, release in marks:
            add_mark(connection, ReleaseMark(app, release, deployed, "", now))
    Explainer(store=store, settings=settings).run(lease, now=now)
    yield World(store, str(home), samples)
    store.close()


def _started(home, **environment):
    keep = {key: value for key, value in os.environ.items() if not key.startswith("GROUNDWATCH_")}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "monitor", "web", "--port", "0"],
        env=keep | SETTINGS | {"GROUNDWATCH_HOME": str(home)} | environment,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    found = re.search(r"http://\S+", process.stderr.readline())
    assert found, process.stderr.read()
    return Server(found[0].rstrip("/"), process)


def _stopped(server):
    server.process.terminate()
    server.process.communicate(timeout=100)


@pytest.fixture(scope="session")
def slack():
    with SlackReceiver() as receiver:
        yield receiver


@pytest.fixture(scope="session")
def server(world, slack):
    """A server on loopback that asks nobody who they are."""
    server = _started(world.home, GROUNDWATCH_SLACK_WEBHOOK_URL=slack.url)
    yield server
    _stopped(server)


@pytest.fixture
def start_server():
    servers = []

    def start(home, **environment):
        servers.append(_started(home, **environment))
        return servers[-1]

    yield start
    for server in servers:
        _stopped(server)


@pytest.fixture
def client_with(world):
    """Make a client of the application itself, with settings of the test's own."""
    with ExitStack() as stack:

        def make(*, world=world, **environment):
            ours = SETTINGS | {"GROUNDWATCH_HOME": world.home} | environment
            settings = Settings.from_env(ours)
            site = Site(Store(settings.sql_url), settings)
            client = TestClient(
                make_app(site), base_url="http://127.0.0.1", client=("127.0.0.1", 1)
            )
            client.site = site
            return stack.enter_context(client)

        yield make


@pytest.fixture
def get(server):
    with server.client() as client:
        yield client.get


def _executable():
    asked = os.environ.get("GROUNDWATCH_TEST_CHROMIUM")
    found = asked or next(filter(None, map(shutil.which, NAMES)), None)
    if found:
        return found
    outcome = SETUP.read_text().strip() if SETUP.exists() else "no Chromium on this machine"
    if os.environ.get("CI") and outcome in {"there", "installed"}:
        pytest.fail(f"the set-up says that Chromium is {outcome}, and there is none")
    return pytest.skip(f"{outcome}; install it, or name one in GROUNDWATCH_TEST_CHROMIUM")


@pytest.fixture(scope="module")  # its event loop must not outlive the file
def browser():
    executable = _executable()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    contexts = []

    def open_page(**options):
        contexts.append(browser.new_context(**options))
        contexts[-1].set_default_timeout(120_000)
        return contexts[-1].new_page()

    yield open_page
    for context in contexts:
        context.close()
