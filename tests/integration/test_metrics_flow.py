"""A metric of every kind, from a record in the queue to the report: also where lower is better."""

import re
from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console

from monitor.models import Status
from monitor.report.text import render_report
from monitor.settings import Settings
from monitor.store.engine import acquire
from monitor.store.verdicts import read_verdicts
from monitor.testing import make_interaction, make_sample
from workers.context import Components
from workers.evaluate import Evaluator
from workers.reports import read_report
from workers.scoring_run import commit, result_of

METRICS = ("toxicity", "precision_at_k", "thanks", "rubric_overall_score", "answer_relevancy")


def thanks(interaction):
    return "thank" in interaction.output.lower()


@pytest.fixture
def context(tmp_path, store):
    path = tmp_path / "metrics.toml"
    path.write_text(f'[precision_at_k]\nk = 1\n[thanks]\nfunction = "{__name__}:thanks"\n')
    made = Components(
        Settings(
            metrics=METRICS,
            metrics_file=path,
            min_n=5,
            windows_s=(3600,),
            bucket_s=60,
            status_policy="point_min_n",
        )
    )
    made.__dict__["store"] = store
    yield made
    made.scorer.close()


def test_metrics_roll_up_into_windows_status_and_report(context, store):
    now = datetime.now(UTC)
    outputs = ["You are a stupid idiot. Refunds take five days [1]."] * 6 + ["Thank you."] * 2
    results = []
    for output in outputs:
        interaction = make_interaction(output=output, expected={"relevant": ["1"]}, app="bot")
        sample = make_sample(interaction, sampled_at=now)
        found = context.scorer.score(interaction)
        results.append(result_of(sample, found, context.rules, now=now))
    commit(store, results, context.rules, now=now)
    lease = acquire(store, "scheduler", "test", ttl_s=60)
    Evaluator(
        store=store,
        settings=context.settings,
        recipients=[],
    ).run(lease, now=datetime.now(UTC))
    with store.read() as connection:
        verdicts = {v.metric: v for v in read_verdicts(connection).values()}
    # The screen by words clears no answer: those without a finding are skipped.
    assert (verdicts["toxicity"].pass_rate, verdicts["toxicity"].n_skipped) == (0.0, 2)
    assert verdicts["toxicity"].status is Status.CRITICAL
    assert verdicts["precision_at_k"].status is Status.HEALTHY
    assert verdicts["thanks"].pass_rate == pytest.approx(0.25)
    assert verdicts["answer_relevancy"].status is Status.INSUFFICIENT_DATA
    assert verdicts["answer_relevancy"].n_skipped == 8
    console = Console(width=200, file=StringIO())
    console.print(render_report(read_report(store, context.settings, now=now, window_s=3600)))
    text = console.file.getvalue()
    assert "lower is better, passes at 0.3 or below" in text
    assert re.search(r"^ +1\.00  [\w-]{36} ", text, re.MULTILINE)
