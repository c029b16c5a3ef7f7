"""Grounding sentence by sentence while an answer is written."""

from monitor.scoring.entailment import StreamingGrounding

CONTEXTS = ["Refunds are paid back to the original card within five working days."]


def test_sentence_is_judged_as_soon_as_the_next_begins():
    stream = StreamingGrounding(CONTEXTS)
    assert stream.feed("Refunds are paid back within five working days.") == []
    [first] = stream.feed(" The moon is made")
    assert (first.grounded, stream.faithfulness) == (True, 1.0)
    [last] = stream.feed(" of cheese.") or stream.finish()
    assert (last.sentence, last.grounded) == ("The moon is made of cheese.", False)
    assert stream.faithfulness == 0.5


def test_sentence_that_states_nothing_has_no_part_in_it():
    stream = StreamingGrounding(CONTEXTS)
    stream.feed("How can I help you? ")
    [judged] = stream.finish()
    assert (judged.support, stream.faithfulness) == (None, None)


def test_nothing_is_grounded_without_passages():
    stream = StreamingGrounding([])
    stream.feed("Refunds take five days.")
    assert [each.grounded for each in stream.finish()] == [False]
