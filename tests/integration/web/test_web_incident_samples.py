"""Which samples the page of an incident of several metrics shows."""

import re
from datetime import UTC, datetime
from types import SimpleNamespace

from monitor.settings import Settings
from monitor.store.engine import Store, acquire
from monitor.store.schema import migrate
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.evaluate import Evaluator
from workers.scoring_run import ScoringRules, result_of


def test_incident_of_two_metrics_shows_samples_of_both(client_with, tmp_path):
    now, rules = datetime.now(UTC), ScoringRules(pass_score=0.7, bucket_s=60)
    settings = Settings.from_env(
        {
            "GROUNDWATCH_HOME": str(tmp_path),
            "GROUNDWATCH_MIN_N": "10",
            "GROUNDWATCH_STATUS_POLICY": "point_min_n",
            "GROUNDWATCH_CRITICAL_FOR_S": "0",
        }
    )
    store = Store(settings.sql_url)
    migrate(store)
    results = []
    for n in range(40):
        metric = ("groundedness", "relevance")[n % 2]
        found = make_evaluation(
            target_event_id=str(n), evaluator_name=metric, score=0.1, explanation=str(n)
        )
        interaction = make_interaction(id=str(n), app="bot", query=f"Question {n}?")
        sample = make_sample(interaction, sampled_at=now)
        results.append(result_of(sample, [found], rules, now=now))
    with store.write() as connection:
        record(connection, results, now=now, bucket_s=60)
    lease = acquire(store, "scheduler", "test", ttl_s=60)
    Evaluator(store=store, settings=settings, recipients=[]).run(lease, now=datetime.now(UTC))
    client = client_with(world=SimpleNamespace(home=str(tmp_path)))
    path = re.search(r'href="(/incidents/\w+)"', client.get("/incidents").text)[1]
    shown = client.get(path).text.split("<h2>Samples</h2>")[1].split("</ul>")[0]
    chips = re.findall(r'<span class="chip">(\w+)</span>', shown)
    assert sorted(chips) == ["groundedness"] * 3 + ["relevance"] * 3
    store.close()
