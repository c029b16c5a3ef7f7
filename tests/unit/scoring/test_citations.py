"""Citations: what they name, and whether the back end says that it carries the statement."""

import time

import pytest

from monitor.scoring.base import Claim, ClaimVerdict, Judgement
from monitor.scoring.declaration import Answers, CriterionAnswer, compared_by
from monitor.scoring.entailment import clear_cache, local_entailment
from monitor.scoring.local.scorer import LocalJudge
from monitor.scoring.metrics import METRICS
from monitor.scoring.metrics.marks import cited_claims
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings
from monitor.testing import make_interaction

ENTAILING = ("citation_accuracy", "citation_quality", "citation_precision")
PASSAGES = [
    {
        "id": "policy",
        "text": "Refunds are paid back to the original card within five working days.",
    },
    {"id": "hours", "text": "Our shops are open from 9 to 18 on weekdays."},
]
RIGHT = "Refunds are paid back to the original card within five working days"


def scored(*metrics, **fields):
    found = make_scorer(Settings(metrics=metrics)).score(make_interaction(**fields))
    return {each.evaluator_name: each for each in found}


def read(name, judgement, **fields):
    metric = METRICS[name]
    return metric.read(judgement, make_interaction(**fields), metric.declaration.parameters())


def judged(text, verdict=ClaimVerdict.SUPPORTED, evidence=None, index=None):
    support = float(verdict is ClaimVerdict.SUPPORTED)
    claim = Claim(
        text=text, verdict=verdict, support=support, evidence=evidence, context_index=index
    )
    return Judgement(claims=(claim,))


@pytest.mark.parametrize(
    ("passage", "statement"),
    [
        ("No refunds are given after 30 days.", "Refunds are given after 30 days"),
        ("Refunds are not given after 30 days.", "Refunds are given after 30 days"),
        ("The tower was completed in 1889.", "The tower was completed in 1920"),
        (
            "The trial took place in the district court in May and lasted three weeks.",
            "Bananas",
        ),
    ],
)
def test_denied_or_foreign_statement_is_supported_by_no_citation(passage, statement):
    found = scored(*ENTAILING, contexts=[passage], output=f"{statement} [1].")
    assert found["citation_accuracy"].score == 0.0
    assert found["citation_precision"].score == 0.0
    # Existence counts 0.4 in this one: the citation leads to a passage.
    assert found["citation_quality"].score == pytest.approx(0.4)


@pytest.mark.parametrize(
    "mark",
    [
        *("[1]", "[policy]", "[^1]", "【1】", "(Policy, 2020)"),
        *("¹", "<sup>1</sup>", "[1, p. 4]", "(see Passage 1)"),
    ],
)
def test_copied_statement_is_supported_by_the_passage_it_cites(mark):
    dated = [PASSAGES[0] | {"year": 2020}, PASSAGES[1]]
    found = scored(*ENTAILING, contexts=dated, output=f"{RIGHT} {mark}.")
    assert found["citation_accuracy"].score == found["citation_precision"].score == 1.0
    assert found["citation_quality"].score > 0.9
    assert scored("citation_accuracy", contexts=PASSAGES, output=f"{RIGHT} [2].")[
        "citation_accuracy"
    ].score == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("fields", "mark"),
    [
        ({"source": "docs/refunds.pdf"}, "[refunds.pdf]"),
        ({"source": "docs/refunds.pdf"}, "[source: docs/refunds.pdf, p. 2]"),
        ({"metadata": {"title": "Refund policy"}}, "[Refund Policy]"),
        ({"id": "refunds"}, "[refunds]"),
        ({"id": "smith2020"}, "(Smith, 2020)"),
    ],
)
def test_mark_names_all_passages_of_a_source(fields, mark):
    contexts = [
        {"text": "Refund fees are two dollars."} | fields,
        {"text": PASSAGES[0]["text"]} | fields,
        {"text": "Refund forms are on the desk."} | fields,
    ]
    found = scored(*ENTAILING, contexts=contexts, output=f"{RIGHT} {mark}.")
    assert found["citation_accuracy"].score == found["citation_precision"].score == 1.0
    assert found["citation_quality"].score > 0.9


LOUVRE = ["The Louvre is closed on Tuesdays.", "Paris is the capital of France."]
SWAPPED = "The Louvre is closed on Tuesdays [2]. Paris is the capital of France [1]."


@pytest.mark.parametrize(
    ("output", "score", "supporting"),
    [
        (SWAPPED, 0.0, []),
        (f"{SWAPPED} The Louvre is closed on Tuesdays [1].", 0.5, ["1"]),
        ("The Louvre is closed on Tuesdays [1][2].", 0.5, ["1"]),
        ("The Louvre is closed on Tuesdays [1][9].", 0.5, ["1"]),
    ],
)
def test_cited_passage_has_to_support_a_claim_that_cites_it(output, score, supporting):
    found = scored("citation_precision", contexts=LOUVRE, output=output)["citation_precision"]
    assert (found.score, found.metadata["supporting"]) == (score, supporting)


@pytest.mark.parametrize(
    ("output", "right"),
    [
        (f"Our shops are open from 9 to 18 on weekdays [2] and {RIGHT.lower()} [1].", 1.0),
        (f"Our shops are open from 9 to 18 on weekdays and {RIGHT.lower()} [1][2].", 1.0),
        (f"Our shops are open from 9 to 18 on weekdays and {RIGHT.lower()} [1][2][3].", 2 / 3),
        (f"Our shops are open from 9 to 18 on weekdays and {RIGHT.lower()} [3].", 0.0),
    ],
)
def test_passages_that_each_support_a_part_of_a_sentence_are_both_right(output, right):
    contexts = [*PASSAGES, "Cats sleep a lot."]
    found = scored(*ENTAILING, contexts=contexts, output=output)
    assert found["citation_accuracy"].score == pytest.approx(right, abs=1e-3)
    assert found["citation_precision"].score == pytest.approx(right, abs=1e-3)
    assert (found["citation_quality"].score > 0.9) == (right == 1)


@pytest.mark.parametrize(
    ("output", "citations"),
    [
        (f"Here is what I found [2]:\n\n- {RIGHT} [1].", 1),
        (f"## Refunds [2]\n\n{RIGHT} [1].", 1),
        ("I could not find that in [1].", None),
        (f"Here is what I found [9]:\n\n- {RIGHT} [1].", 2),
    ],
)
def test_passage_cited_where_nothing_is_stated_is_neither_right_nor_wrong(output, citations):
    found = scored("citation_accuracy", contexts=PASSAGES, output=output)["citation_accuracy"]
    assert found.metadata.get("citations") == citations
    assert found.reason == ("no_citation" if citations is None else "")


def test_any_cited_passage_may_be_right_beyond_the_first_twenty():
    found = scored(
        "citation_precision",
        contexts=["Cats."] * 20 + LOUVRE,
        output=f"{RIGHT} [1]. The Louvre is closed on Tuesdays [21].",
    )
    assert found["citation_precision"].metadata["supporting"] == ["21"]


def test_judge_verdict_decides_citations_over_word_overlap():
    said = "Money comes back within a working week"
    quote = "paid back to the original card within five working days"
    output = f"{said} [1]."
    supported = judged(f"{said} [1].", evidence=quote, index=0)
    assert read("citation_accuracy", supported, contexts=PASSAGES, output=output).score == 1.0
    wrong_place = read("citation_accuracy", supported, contexts=PASSAGES, output=f"{said} [2].")
    assert wrong_place.score == 0.0
    denied = judged(f"{RIGHT} [1].", verdict=ClaimVerdict.CONTRADICTED)
    copied = {"contexts": PASSAGES, "output": f"{RIGHT} [1]."}
    assert read("citation_accuracy", denied, **copied).score == 0.0
    assert read("citation_completeness", denied, **copied).skipped == "nothing_supports"


@pytest.mark.parametrize(
    ("mark", "score"), [("[1]", 0.0), ("[2]", 1.0), ("(Source 2)", 1.0), ("(Lee, 2020)", 1.0)]
)
def test_figure_in_round_brackets_of_a_judges_claim_is_no_mark(mark, score):
    texts = "The fee is due monthly.", "The fee (EUR 30) is due monthly."
    output = f"The fee (EUR 30) is due monthly {mark}."
    claims = tuple(
        Claim(
            text=f"{text} {mark}",
            verdict=ClaimVerdict.SUPPORTED,
            support=1.0,
            evidence=texts[1],
            context_index=1,
            sentence=output,
        )
        for text in ("The fee (EUR 30) is due", "The fee is due monthly")
    )
    contexts = [{"text": texts[0]}, {"text": texts[1], "author": "Lee", "year": 2020}]
    found = read("citation_accuracy", Judgement(claims=claims), contexts=contexts, output=output)
    assert found.score == score


def test_citation_metrics_carry_the_back_ends_version():
    found = scored("grounding_score", *ENTAILING, contexts=PASSAGES, output=f"{RIGHT} [1].")
    back_end = found["grounding_score"].evaluator_version
    assert back_end.startswith("local-")
    assert {found[name].evaluator_version for name in ENTAILING} == {f"{back_end}-4"}


@pytest.mark.parametrize(
    ("output", "expected", "score"),
    [
        ("Tea is hot [1]. Ice is cold [2].", ["policy", "hours"], 1.0),
        ("Tea is hot [policy]. Ice is cold [hours].", ["1", "2"], 1.0),
        ("Tea is hot [2]. Ice is cold [1].", ["policy", "hours"], 0.0),
        ("Tea is hot. Ice is cold [2].", ["policy", "hours"], 0.5),
        ("Tea is hot. Ice is cold [2].", ["hours"], 1.0),
        ("Sure! Tea is hot. Ice is cold [2].", ["policy", "hours"], 0.5),
        ("Sure! Tea is hot [1]. Ice is cold [2].", ["policy", "hours"], 1.0),
        ("Tea is hot [1].", ["nowhere"], 0.0),
    ],
)
def test_expected_citations_are_ids_or_places(output, expected, score):
    found = scored(
        "citation_accuracy_grace",
        contexts=PASSAGES,
        output=output,
        expected={"citations": expected},
    )
    assert found["citation_accuracy_grace"].score == score


def test_expected_citation_counts_for_the_quality_by_id_or_place():
    scores = {
        scored(
            "citation_quality",
            contexts=PASSAGES,
            output=f"{RIGHT} [1].",
            expected={"citations": [name]},
        )["citation_quality"].score
        for name in ("policy", "1")
    }
    assert len(scores) == 1
    assert scores.pop() > 0.9


DATED = [
    {"id": "smith2020", "text": "Solar power became cheaper than coal in most countries."},
    {"id": "b", "author": "Jones", "year": 2021, "text": "Wind power grew by nine percent."},
]


@pytest.mark.parametrize(
    ("output", "index", "score"),
    [
        ("Solar power became cheaper than coal in most countries (Smith, 2020).", 0, 1.0),
        ("Wind power grew by nine percent (Jones et al., 2021).", 1, 1.0),
        ("Wind power grew by nine percent (Smith, 2020).", 1, 0.0),
        ("Wind power grew by nine percent (Brown, 1999).", 1, 0.0),
        ("Wind power grew by nine percent (Jones et al., 2021, p. 4).", 1, 1.0),
        ("Wind power grew by nine percent (Smith, 2020, pp. 4-5).", 1, 0.0),
        ("Jones (2021) says that wind power grew by nine percent.", 1, 1.0),
        ("Jones and Lee (2021) say that wind power grew by nine percent.", 1, 1.0),
        ("Smith (2020) says that wind power grew by nine percent.", 1, 0.0),
    ],
)
def test_author_and_year_identify_a_passage(output, index, score):
    judgement = judged(output, evidence=DATED[index]["text"], index=index)
    found = read("citation_accuracy", judgement, contexts=DATED, output=output)
    assert found.score == score
    assert found.details["not_found"] == ("Brown" in output)


NAMED = ("faq-3", "policy", "b")


@pytest.mark.parametrize(
    ("marks", "cited"),
    [
        ("[1]", "1"),
        ("[1, 2]", "1 2"),
        ("[1 and 2]", "1 2"),
        ("[1–3]", "1 2 3"),
        ("[1 - 3]", "1 2 3"),
        ("[1]-[3]", "1 2 3"),
        ("[1][2]", "1 2"),
        ("[1], [2] and [3]", "1 2 3"),
        ("[[1]]", "1"),
        ("[[1]](https://example.com/a)", "1"),
        ("[1](https://example.com/a)", "1"),
        ("[^1]", "1"),
        ("\\[1\\]", "1"),
        ("【1】", "1"),
        ("【4:0†source】", "4"),
        ("<sup>1, 2</sup>", "1 2"),
        ("[doc-a]", ""),
        ("[faq-3]", "faq-3"),
        ("[faq-9]", "faq-9"),
        ("[Policy]", "policy"),
        ("[policy](https://example.com/policy)", "policy"),
        ("[Doc 2]", "2"),
        ("[doc_2]", "2"),
        ("[S2]", "2"),
        ("[#2]", "2"),
        ("[Ref. 2]", "2"),
        ("[Quelle 2]", "2"),
        ("[Sources: 1, 2]", "1 2"),
        ("[citation:1]", "1"),
        ("[source: faq-3]", "faq-3"),
        ("(source: faq-3)", "faq-3"),
        ("(see Passage 2)", "2"),
        ("(see [2])", "2"),
        ("[1, p. 4]", "1"),
        ("[a.pdf, page 4]", "a.pdf"),
        ("[sic]", ""),
        ("[2020]", ""),
        ("[12345]", ""),
        ("[10:30]", ""),
        ("[0.82, 0.98]", ""),
        ("[0-5]", ""),
        ("[ORDER_ID]", ""),
        ("[F5]", ""),
        ("[EMAIL_1]", ""),
        ("(1)", ""),
        ("(source: our shop)", ""),
        ("[terms](https://example.com/1)", ""),
        ("[terms][1]", ""),
        ("in the interval [1, 5]", ""),
        ("with x = [1, 2]", ""),
        ("in `rows[1]`", ""),
        ("in rows[1].name", ""),
        ("in arr[0]", ""),
        ("in m[0][1]", ""),
        ("in data[1] too", ""),
        ("in data[1]", "1"),
    ],
)
def test_mark_in_a_sentence_is_read_as_its_writer_means_it(marks, cited):
    [claim] = cited_claims(f"It is said {marks}.", NAMED)
    assert claim.cited == tuple(cited.split())


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("Refunds take five days¹. Shops open at nine.²", [("1",), ("2",)]),
        ("Refunds take five days.¹² Shops open at nine¹⁻³.", [("1", "2"), ("1", "2", "3")]),
        ("The room has 20 m², or 20 meters².", [()]),
        ("Here sin²(x) + cos²(x) is 1, and 10² is 100.", [()]),
        ("It is so. [1] And so is this.[2]", [("1",), ("2",)]),
        ("**It is so.** [1]\n[2]", [("1", "2")]),
        ("[1] It is so. [2] And so is this.", [("1",), ("2",)]),
        ("- [1] It is so.\n- And so is this [2].", [("1",), ("2",)]),
        ("It was [Smith et al., 2020; Lee, 2021].", [("Smith et al., 2020", "Lee, 2021")]),
        ("It was (Smith, 2020) so.", [("Smith, 2020",)]),
    ],
)
def test_mark_belongs_to_its_sentence(answer, cited):
    assert [claim.cited for claim in cited_claims(answer, NAMED)] == cited


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("It is so [^1].\n\n[^1]: Refund policy, page 2.", ["1"]),
        ("It is so [1].\n\n[1]: Refund policy, page 2", ["1"]),
        ("It is so [1].\n\n[1] Refund policy\n[2] Terms", ["1"]),
        ("All is said¹.\n---\n¹ Refund policy", ["1"]),
        ("It is so [1].\n\n[2] So is this.", ["1", "2"]),
        ("See [terms][1] for more.\n\n[1]: https://example.com/terms", []),
        ("It is so [1].\n\nSources:\n[1] policy.pdf\n[2] terms.pdf", ["1"]),
        (
            "It is so [1].\n\n## References\n\n- [1] Policy\n2. [^2] Terms\n\nSo is this [3].",
            ["1", "3"],
        ),
        ("It is so [1].\n**Quellen:**\n【2】 a.pdf", ["1"]),
        ("It is so [1].\n\nSources: [1] Policy, [2] Terms", ["1"]),
        ("Sources: [1] and [2] say that it is so.", ["1", "2"]),
        ("Sources:\nIt is so [1].", ["1"]),
        ("It is so. So is this.\nSource: [1]", ["1"]),
        ("It is so.\nSources: [1], [2]", ["1", "2"]),
        ("It is so. So is this.\nSources: [1], [2]", []),
    ],
)
def test_notes_and_lists_of_sources_below_an_answer_are_no_claims(answer, cited):
    claims = cited_claims(answer, NAMED)
    assert [mark for claim in claims for mark in claim.cited] == cited
    assert not any("olicy" in claim.text or "Source:" in claim.text for claim in claims)


def test_list_of_sources_takes_no_point_from_a_right_answer():
    output = f"{RIGHT} [1].\n\nSources:\n[1] policy.pdf\n[2] hours.pdf"
    found = scored("citation_accuracy", contexts=PASSAGES, output=output)["citation_accuracy"]
    assert (found.score, found.metadata["citations"]) == (1.0, 1)


def test_name_before_a_year_is_a_citation_only_if_a_passage_has_both():
    output = "In May (2020) it was so, and Jones (2021) says it was not [b]."
    found = read("citation_accuracy", judged(output), contexts=DATED, output=output)
    assert found.details["citations"] == 2


def test_place_and_year_are_not_a_citation_without_matching_passages():
    output = "The treaty was signed there (Paris, 1889)."
    assert scored("citation_accuracy", contexts=PASSAGES, output=output)[
        "citation_accuracy"
    ].reason == ("no_citation")


def test_pairs_of_passages_never_lower_the_grounding():
    for output in (RIGHT, "Refunds take five days and shops open at 9.", "Cats fly at night."):
        found = scored(
            "grounding_score", "multi_document_grounding", contexts=PASSAGES, output=output
        )
        single, pairs = (found[name].score for name in found)
        assert pairs >= single


PLACES = ["Lyon", "Osaka", "the depot", "the annex", "district court"]
EVENTS = [
    "The trial at {} took place in May and lasted three weeks.",
    "Parcels from {} leave on Mondays and are insured up to 500 euro.",
    "Invoices of {} are kept for ten years and then destroyed.",
    "The roof of {} was repaired after the storm, at a cost of 12,000 euro.",
    "Visitors to {} need a badge, which the porter hands out.",
    "Nobody in {} had expected the merger to be approved.",
    "The choir of {} rehearses every second Thursday evening.",
    "Water in {} is tested for lead twice a year.",
]
SHORT = [
    "Bananas.",
    "Yes.",
    "Paris.",
    "42.",
    "Blue whales.",
    "Next Tuesday.",
    "No.",
    "Ada Lovelace.",
]
SHORT += ["Twice.", "It depends.", "About 7 %.", "Never."]


def test_short_answer_is_not_supported_by_an_unrelated_passage():
    passages = [event.format(place) for event in EVENTS for place in PLACES]
    found = [local_entailment(passage, short) >= 0.5 for passage in passages for short in SHORT]
    assert len(found) == 480
    assert sum(found) <= 0.05 * len(found)


@pytest.mark.parametrize("word", ["Bananas", "Helsinki.", "Napoleon [1].", "1987"])
def test_one_word_answer_absent_from_the_passages_fails(word):
    found = scored("groundedness", contexts=[EVENTS[0].format(PLACES[0])] * 2, output=word)
    assert found["groundedness"].score < found["groundedness"].criteria["pass_score"]
    assert "0 of 1 claim is supported; not found:" in found["groundedness"].explanation


def test_short_answer_with_unrelated_passages_is_neither_grounded_nor_cited():
    passages = [event.format(place) for event in EVENTS[:4] for place in PLACES[:2]]
    found = [
        scored("grounding_score", "citation_precision", contexts=[passage], output=short + " [1]")
        for passage in passages
        for short in SHORT[:6]
    ]
    supported = [e.score >= 0.5 for each in found for e in each.values() if e.score is not None]
    assert len(supported) >= len(found)
    assert sum(supported) <= 0.05 * len(supported)


def cpu_s(metric, sentences):
    """Return the CPU time to read a metric of an answer as long as its two passages."""
    text = " ".join(f"Item {n} costs {n % 97} euro." for n in range(sentences))
    cited = text.replace(".", " [1].")
    half = len(text) // 2
    interaction = make_interaction(contexts=[text[:half], text[half:]], output=cited)
    judgement = LocalJudge().judge(interaction)
    clear_cache()
    started = time.process_time()
    METRICS[metric].read(judgement, interaction, METRICS[metric].declaration.parameters())
    return time.process_time() - started


@pytest.mark.parametrize("metric", ["multi_source_coverage", "citation_accuracy"])
def test_time_grows_no_faster_than_the_text(metric):
    cpu_s(metric, 50)
    # The best of some: a busy machine slows a measurement.
    once, four = (min(cpu_s(metric, n) for _ in range(5)) for n in (500, 2_000))
    assert four < 3
    # Of four times the text: linear is 4, quadratic 16.
    assert four / once < 8


@pytest.mark.parametrize(
    "answer",
    [
        "[" + "[1] " * 30 + "x",
        "<sup>" + " " * 20_000,
        "Source" + ":" * 20_000 + " x",
    ],
)
def test_no_answer_takes_long_to_read_for_its_marks(answer):
    started = time.process_time()
    cited_claims(answer)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        (f"Refunds{'¹' * 5000} take five days.", ()),
        (f"Refunds [{'1' * 250}] take five days.", ()),
        ("Refunds [2]([1]) take five days.", ("2",)),
    ],
)
def test_digits_in_brackets_that_are_no_mark_cite_nothing(answer, cited):
    assert cited_claims(answer)[0].cited == cited


class Counting:
    """Calls every pair a contradiction, and counts them."""

    version = "counting-1"
    asked = 0

    def contradicted(self, pairs):
        self.asked += len(pairs)
        return [1.0] * len(pairs)


@pytest.mark.parametrize(
    ("passages", "most", "score"),
    [
        (["Refunds take five days.", "Shops open at nine."], 0, 0.0),
        ([" ".join(f"Refunds of kind {n} take {n} days." for n in range(10))] * 30, 80, None),
    ],
)
def test_model_is_asked_about_few_pairs_of_sentences_with_common_words(passages, most, score):
    model, interaction = Counting(), make_interaction(contexts=passages)
    with compared_by(None, model):
        found = METRICS["passage_contradictions"].screen(interaction, None)
    assert model.asked == most
    assert score is None or found.score == score


CONFLICTING = [
    "The tower was completed in 1889.",
    "The tower was completed in 1920.",
    "Cats sleep a lot.",
]


def test_contradicting_passages_are_those_that_the_judge_names():
    metric = METRICS["passage_contradictions"]
    interaction = make_interaction(contexts=CONFLICTING)

    def read(*texts):
        said = {"contradicting_passages": CriterionAnswer(texts=texts)}
        answers = Answers(by_name=said, sentences=(), passages=3, reference=())
        return metric.read(answers, interaction, None)

    assert read("1 and 2").score == pytest.approx(1 / 3)
    assert read("none").score == 0.0
    assert read("2 and 1", "1 and 2", "3 and 9", "2 and 2", "many").details["pairs"] == [(1, 2)]
    [found] = make_scorer(Settings(metrics=("passage_contradictions",))).score(interaction)
    assert (found.score, found.metadata["pairs"]) == (pytest.approx(1 / 3, abs=1e-6), [(1, 2)])
