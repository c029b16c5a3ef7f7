"""Local entailment counts words: what it must get right, and what it may not claim."""

import tracemalloc

import pytest

from monitor.scoring.entailment import contradictions, local_entailment, supports

PASSAGE = "The tower was completed in 1889 and stands 330 meters tall."


def test_statement_quoted_from_the_passage_is_supported():
    assert local_entailment(PASSAGE, "The tower was completed in 1889.") > 0.8


@pytest.mark.parametrize(
    ("premise", "hypothesis"),
    [
        ("No refunds are given after 30 days.", "Refunds are given after 30 days."),
        (PASSAGE, "Bananas."),
        (PASSAGE, "Yes, bananas."),
    ],
)
def test_shared_or_missing_words_alone_are_no_support(premise, hypothesis):
    assert local_entailment(premise, hypothesis) < 0.5


@pytest.mark.parametrize(
    ("premise", "hypothesis"),
    [
        ("Researchers found no evidence that coffee causes cancer.", "Coffee causes cancer."),
        ("There is no proof that the vaccine causes fever.", "The vaccine causes fever."),
        ("The minister denied that the tax will rise.", "The tax will rise."),
        ("The trial failed to show that the drug lowers fever.", "The drug lowers fever."),
        ("It is not true that the bridge was closed in March.", "The bridge was closed in March."),
        ("The police have not said that the suspect was armed.", "The suspect was armed."),
        ("The team doubts that the new model is faster.", "The new model is faster."),
        ("The report rejects the claim that the dam is unsafe.", "The dam is unsafe."),
        ("Es gibt keine Hinweise, dass Kaffee Krebs verursacht.", "Kaffee verursacht Krebs."),
    ],
)
def test_statement_about_a_merely_named_thing_is_not_supported(premise, hypothesis):
    assert local_entailment(premise, hypothesis) < 0.5


@pytest.mark.parametrize(
    ("premise", "statement"),
    [
        ("Researchers found evidence that coffee causes cancer.", "Coffee causes cancer."),
        (
            "Researchers found no evidence that coffee causes cancer.",
            "No evidence was found that coffee causes cancer.",
        ),
        ("The company did not deny that it sold the mill.", "The company sold the mill."),
        ("The minister denied that the tax will rise.", "The minister denied that it will rise."),
        ("The mayor, who had denied it, said the tax will rise.", "The tax will rise."),
        ("The minister denied it. The tax will rise in May.", "The tax will rise in May."),
        (
            "Some deny that the tax will rise. The law says that the tax will rise.",
            "The tax will rise.",
        ),
        ("All birds except penguins can fly.", "All birds except penguins can fly."),
        ("Every museum in town apart from the Arsenal is free.", "Museums in town are free."),
        ("The warranty covers all parts excluding batteries.", "The warranty excludes batteries."),
        ("Nobody but the treasurer may sign contracts.", "The treasurer may sign contracts."),
        ("Refunds take 30 days, except for opened software.", "Refunds take 30 days."),
        ("If you need help, the desk is open until 22:00.", "The desk is open until 22:00."),
        ("If you need help, the desk is always open.", "The desk is always open."),
        (
            "Dogs are allowed unless it rains. Any dog may enter the park.",
            "Any dog may enter the park.",
        ),
    ],
)
def test_statement_beside_a_denial_or_exception_is_supported(premise, statement):
    assert local_entailment(premise, statement) > 0.8


def test_condition_does_not_contradict_a_statement():
    assert contradictions("If the payment is late, wait.", ["The payment is late."]) == [False]


def test_supported_statement_is_more_likely_than_a_foreign_one():
    supported = local_entailment(PASSAGE, "The tower is 330 meters tall.")
    assert supported > local_entailment(PASSAGE, "Bananas grow in the south.")


def test_other_number_contradicts():
    said = ["The tower was completed in 1920.", "The tower was completed in 1889.", "Really?"]
    assert contradictions(PASSAGE, said) == [True, False, False]


@pytest.mark.parametrize(("premise", "hypothesis"), [("", "x"), ("x", " "), ("", "")])
def test_empty_text_neither_entails_nor_contradicts(premise, hypothesis):
    assert local_entailment(premise, hypothesis) == 0
    assert contradictions(premise, [hypothesis]) == [False]


def test_batched_statements_are_supported_like_single_ones():
    said = ("The tower is 330 meters tall.", "Bananas grow in the south.", "Hello there!")
    assert supports(PASSAGE, said) == tuple(local_entailment(PASSAGE, each) for each in said)
    assert supports(PASSAGE, ()) == ()


def test_cached_support_keeps_no_text():
    local_entailment(PASSAGE, "warm")
    tracemalloc.start()
    for place in range(20):
        local_entailment(f"{place} " + "." * 500_000, f"{place} is told")
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000
