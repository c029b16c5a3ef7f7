"""Local entailment counts words: what it must get right, and what it may not claim."""

import tracemalloc

import pytest

from monitor.scoring.entailment import contradictions, local_entailment, supports

PASSAGE = "The tower was completed in 1889 and stands 330 meters tall."


def test_statement_that_stands_in_the_passage_is_supported():
    assert local_entailment(PASSAGE, "The tower was completed in 1889.") > 0.8


@pytest.mark.parametrize(
    ("premise", "hypothesis"),
    [
        ("No refunds are given after 30 days.", "Refunds are given after 30 days."),
        (PASSAGE, "Bananas."),
        (PASSAGE, "Yes, bananas."),
    ],
)
def test_words_that_a_passage_shares_or_lacks_support_nothing(premise, hypothesis):
    assert local_entailment(premise, hypothesis) < 0.5


def test_supported_statement_is_more_likely_than_a_foreign_one():
    supported = local_entailment(PASSAGE, "The tower is 330 meters tall.")
    assert supported > local_entailment(PASSAGE, "Bananas grow in the south.")


def test_other_number_contradicts():
    said = ["The tower was completed in 1920.", "The tower was completed in 1889.", "Really?"]
    assert contradictions(PASSAGE, said) == [True, False, False]


@pytest.mark.parametrize(("premise", "hypothesis"), [("", "x"), ("x", " "), ("", "")])
def test_nothing_entails_and_contradicts_nothing(premise, hypothesis):
    assert local_entailment(premise, hypothesis) == 0
    assert contradictions(premise, [hypothesis]) == [False]


def test_several_statements_at_once_are_supported_as_each_alone():
    said = ("The tower is 330 meters tall.", "Bananas grow in the south.", "Hello there!")
    assert supports(PASSAGE, said) == tuple(local_entailment(PASSAGE, each) for each in said)
    assert supports(PASSAGE, ()) == ()


def test_no_text_is_kept_when_its_support_is():
    local_entailment(PASSAGE, "warm")
    tracemalloc.start()
    for place in range(20):
        local_entailment(f"{place} " + "." * 500_000, f"{place} is told")
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000
