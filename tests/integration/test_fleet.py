"""Many apps that fall together, from the store to one alert, the status and the page."""

import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from alerts.conditions import FLEET_FELL
from alerts.message import render
from alerts.queries import open_incidents
from alerts.routing import Recipient
from monitor.report.text import render_status
from monitor.rolling.baseline import Baseline
from monitor.rolling.evidence_state import from_json, to_json
from monitor.settings import Settings
from monitor.store.engine import acquire
from monitor.store.verdicts import (
    ReleaseMark,
    add_mark,
    fleet_falls,
    read_states,
    read_verdicts,
    save_states,
)
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from support.sent_messages import messages
from workers.evaluate import Evaluator
from workers.reports import read_status
from workers.scoring_run import ScoringRules, result_of

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
APPS = [f"shop-{i:02d}" for i in range(12)]
RULES = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=("release", "model"))


class Shops:
    """Twelve apps with the same evaluator, and a scheduler that can be started again."""

    def __init__(self, store):
        self.store, self.now = store, START
        self.rng = np.random.default_rng(5)
        self.lease = acquire(store, "scheduler", "test", ttl_s=6000)
        self.restart()

    def restart(self):
        settings = Settings()
        self.evaluator = Evaluator(
            store=self.store,
            settings=settings,
            recipients=[Recipient("slack", "")],
        )

    def score(self, n, rate, *, models=None):
        """Store *n* scores of every app, at one rate or each at its own; some name their model."""
        rates, models = rate if isinstance(rate, dict) else dict.fromkeys(APPS, rate), models or {}
        results = [
            result_of(
                make_sample(
                    make_interaction(app=app, tags={"model": models[app]} if models else {}),
                    sampled_at=self.now,
                ),
                [make_evaluation(score=0.9 if self.rng.random() < rates[app] else 0.1)],
                RULES,
                now=self.now,
            )
            for app in APPS
            for _ in range(n)
        ]
        with self.store.write() as connection:
            record(connection, results, now=self.now, bucket_s=60)

    def evaluate(self, after_s=60.0):
        self.now += timedelta(seconds=after_s)
        self.evaluator.run(self.lease, now=self.now)


@pytest.fixture
def shops(store):
    """Apps that were seen at 96 % for a week."""
    found = Shops(store)
    found.score(1, 1.0)
    found.evaluate()
    week = Baseline((0.94,), 0.96, 9000.0, 1.0, 1.0, effect_known=True)
    with store.write() as connection:
        states = read_states(connection)
        for row in states.values():
            state = from_json(row["memory"]).but(baseline=week, learned_s=found.now.timestamp())
            row["memory"] = to_json(state)
        save_states(connection, states, now=found.now)
    found.restart()
    return found


def test_one_alert_names_the_apps_that_fell_and_status_shows_it(shops):
    with shops.store.write() as connection:
        for app in APPS[:9]:
            add_mark(connection, ReleaseMark(app, "v12", shops.now, "", shops.now))
    for _ in range(4):
        shops.score(2, 0.2)
        shops.restart()  # what is remembered is in the store
        shops.evaluate()
    with shops.store.read() as connection:
        (fall,) = fleet_falls(connection)
        incidents = open_incidents(connection)
        told = [render(item, {item.event}) for item in messages(connection)]
        verdicts = read_verdicts(connection).values()
    assert (fall.metric, fall.n_apps) == ("groundedness", 12)
    assert len(fall.fell) >= 10
    assert fall.high < 0.85
    assert "v12 went out" in fall.cause
    together = [incident for incident in incidents if incident.metric == FLEET_FELL]
    assert [incident.app for incident in together] == ["groundwatch"]
    (message,) = [item for item in told if item.headline == "apps fell together"]
    assert re.fullmatch(r"shop-\d\d, shop-\d\d, shop-\d\d and \d+ more", message.title)
    assert "groundedness" in message.text
    assert not any(verdict.metric == FLEET_FELL for verdict in verdicts)
    report = read_status(shops.store, Settings(), now=shops.now)
    assert list(report.fleet) == [fall]
    assert "fell together" in str(render_status(report).renderables[0])


def test_falling_apps_with_one_model_are_found_when_the_whole_fleet_is_fine(shops):
    models = {app: "m2" if app in APPS[:4] else "m1" for app in APPS}
    rates = {app: 0.64 if app in APPS[:4] else 1.0 for app in APPS}
    for _ in range(25):
        shops.score(2, rates, models=models)
        shops.evaluate()
        shops.restart()
        with shops.store.read() as connection:
            if falls := fleet_falls(connection):
                break
    (fall,) = falls
    assert (fall.shared, fall.n_apps, set(fall.fell)) == ("model=m2", 4, set(APPS[:4]))
    assert "all of them use model m2" in fall.cause
