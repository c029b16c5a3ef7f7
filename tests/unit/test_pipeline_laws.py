"""The laws of a pipeline: kept by an honest one, broken by state, side effects and meddling."""

import itertools

import pytest

from monitor.testing import laws

QUESTIONS = ["How long does a refund take?", "What does it cost?"]


def retrieve(question):
    return {"query": question, "contexts": [f"About {question.lower()}"]}


def answer(found):
    return found | {"output": found["contexts"][0]}


def length(found):
    return len(found["output"]) / 100


def test_pure_pipeline_satisfies_every_law():
    found = laws([retrieve, answer], QUESTIONS, metric=length)
    assert found
    assert (found.correctness, found.examples, found.broken) == (1.0, 2, [])


def test_read_only_verification_satisfies_naturality():
    def verify(found):
        return found | {"verified": True}

    assert laws([retrieve, answer], QUESTIONS, metric=length, verify=verify)


def test_answer_changing_verification_violates_naturality():
    def meddle(found):
        return found | ({"output": "censored"} if "output" in found else {})

    found = laws([retrieve, answer], QUESTIONS, metric=length, verify=meddle)
    assert (found.identity, found.composition, found.naturality) == (1.0, 1.0, 0.0)
    assert "verified behind stage 2" in found.broken[0]


def test_stateful_pipeline_violates_composition():
    calls = itertools.count()
    found = laws(lambda question: f"{question} {next(calls)}", QUESTIONS)
    assert not found
    assert found.composition == found.identity == 0.0


def test_stage_that_mutates_its_input_is_named():
    def greedy(found):
        found["contexts"].clear()
        return {"output": "nothing"}

    found = laws([retrieve, greedy], QUESTIONS, metric=length)
    assert (found.identity, found.composition) == (1.0, 0.0)
    assert "what stage 2 was handed" in found.broken[0]


def test_numbers_may_differ_within_the_tolerance():
    noise = itertools.cycle([0.0, 1e-9])
    found = laws([retrieve, answer], QUESTIONS, metric=lambda found: next(noise))
    assert found


@pytest.mark.parametrize(("stages", "examples"), [([], ["x"]), ([str], [])])
def test_pipeline_laws_without_questions_are_an_error(stages, examples):
    with pytest.raises(ValueError, match="at least one stage and one example"):
        laws(stages, examples)
