"""No metric's cost grows faster than the text, and no sample takes a worker's time for itself."""

import time

import pytest

from monitor.models import Interaction
from monitor.scoring.declaration import Computed, JudgementMetric, RubricMetric
from monitor.scoring.entailment import clear_cache
from monitor.scoring.local.scorer import LocalJudge
from monitor.scoring.metrics import METRICS
from monitor.scoring.pipeline import JudgementScorer, MetricPipeline
from monitor.scoring.registry import resolve_metrics
from monitor.settings import Settings

CONFIGURED = resolve_metrics(Settings(metrics=tuple(METRICS)), plugins=())
CHARS = 1_500  # of the shortest text
NOTICED_S = 0.03  # less is never called slow: the clock is too coarse
WORST_RATIO = 10  # from once to four times the text; quadratic cost has 16
UNITS = {
    "one letter": "a",
    "letters": "ab ",
    "words": "refund parcel weekday ",
    "capitals": "Alpha Beta Gamma ",
    "names": "Smith and Lee met Adams. ",
    "long words": "internationalisation" * 5 + " ",
    "underscores": "_a",
    "digits": "1 2 ",
    "one number": "9",
    "amounts": "$1,234.56 and 7 %. ",
    "dates": "on 2024-05-06 at 10:30, ",
    "units": "3 kg, 5 km/h, 20 °C. ",
    "sentences": "The refund takes five days. ",
    "denials": "The refund does not take five days. ",
    "conjunctions": "it is red and blue and green, ",
    "dots": ".",
    "questions": "Why? ",
    "abbreviations": "e.g. Dr. No. ",
    "commas": ",",
    "lines": "a line\n",
    "bullets": "- a point\n",
    "headings": "# Title\n\n",
    "table": "| a | b |\n|---|---|\n",
    "spaces": " ",
    "tabs": "\t",
    "marks": "[1]",
    "cited sentences": "The refund takes five days [1]. ",
    "footnotes": "So it is[^1]. ",
    "brackets": "[",
    "closing brackets": "]",
    "parentheses": "(",
    "authors": "(Smith, 2020) ",
    "quotes": '"He said" ',
    "backticks": "`",
    "code": "x[1] = f(y_2)[3]; ",
    "fences": "```\nrows[2].name\n```\n",
    "json": '{"a": 1, "b": [2, 3]}, ',
    "open json": '{"a":',
    "links": "[price](https://example.org/a) ",
    "japanese": "返金は五日かかります。",
    "no spaces": "返金五日",
    "expanding": "\ufdfa",
    "invisible": "\u200b\u0301",
    "refusals": "I do not know. ",
    "small talk": "Thanks! You are welcome. ",
}  # fmt: skip


def interaction(unit, times):
    text = (unit * (CHARS * times // len(unit) + 1))[: CHARS * times]
    return Interaction.model_validate(
        {
            "id": "1",
            "query": "How long does the refund take?",
            "output": f"The refund takes five days [1]. {text}",
            "contexts": [{"id": "p1", "text": text}, "The refund takes five days.", text[::-1]],
            "expected": {
                "answer": text,
                "relevant": ["p1"],
                "citations": ["p1"],
                "unanswerable": True,
            },
            "metadata": {"answers": [text] * 3, "answer": {"reasoning": text}},
        }
    )


def costs_s(unit, times):
    """Return the CPU seconds of each metric, from nothing known."""
    case = interaction(unit, times)
    clear_cache()
    started_s = time.thread_time()
    judgement = LocalJudge().judge(case)
    found = {"the judgement": time.thread_time() - started_s}
    for each in CONFIGURED:
        metric = each.metric
        if each.unmet(case) is not None:
            continue
        started_s = time.thread_time()
        if isinstance(metric, JudgementMetric):
            metric.read(judgement, case, each.parameters)
        elif isinstance(metric, Computed):
            metric.compute(case, each.parameters)
        elif isinstance(metric, RubricMetric) and metric.screen is not None:
            metric.screen(case, each.parameters)
        found[each.name] = time.thread_time() - started_s
    return found


@pytest.mark.parametrize("shape", UNITS)
def test_metric_cost_grows_no_faster_than_its_text(shape):
    slow = {}
    for _ in range(3):  # a busy machine may slow one measurement, not three
        once, four = costs_s(UNITS[shape], 1), costs_s(UNITS[shape], 4)
        slow = {
            name: (once.get(name), taken_s)
            for name, taken_s in four.items()
            if taken_s > NOTICED_S and taken_s > WORST_RATIO * once.get(name, 0.0)
        }
        if not slow:
            break
    assert not slow


def test_too_expensive_sample_is_failed_and_the_next_is_scored():
    names = ("groundedness", "citation_accuracy", "passage_contradictions", "length")
    metrics = resolve_metrics(Settings(metrics=names), plugins=())
    shared = [each for each in metrics if isinstance(each.metric, JudgementMetric)]
    judged = JudgementScorer(LocalJudge(), shared)
    case = interaction("The refund takes five days [1]. ", 1)
    spent = MetricPipeline(metrics, judged=judged, cpu_s=0.0).score(case)
    assert {each.status.value for each in spent} == {"failed"}
    assert {(each.error.code, each.score) for each in spent} == {("too_expensive", None)}
    scored = MetricPipeline(metrics, judged=judged).score(case)
    assert {each.status.value for each in scored} == {"completed"}
