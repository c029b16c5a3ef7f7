"""Grounding sentence by sentence while an answer is written."""

import asyncio

import pytest

from monitor import Hook
from monitor.scoring import entailment
from monitor.scoring.entailment import StreamingGrounding, acheck_stream, check_stream

CONTEXTS = ["Refunds are paid back to the original card within five working days."]


def test_sentence_is_judged_as_soon_as_the_next_begins():
    stream = StreamingGrounding(CONTEXTS)
    assert stream.feed("Refunds are paid back within five working days.") == []
    [first] = stream.feed(" The moon is made")
    assert (first.grounded, stream.faithfulness) == (True, 1.0)
    [last] = stream.feed(" of cheese.") or stream.finish()
    assert (last.sentence, last.grounded) == ("The moon is made of cheese.", False)
    assert stream.faithfulness == 0.5


def test_sentence_without_a_claim_is_left_out_of_faithfulness():
    stream = StreamingGrounding(CONTEXTS)
    stream.feed("How can I help you? ")
    [judged] = stream.finish()
    assert (judged.support, stream.faithfulness) == (None, None)


def test_no_sentence_is_grounded_without_passages():
    stream = StreamingGrounding([])
    stream.feed("Refunds take five days.")
    assert [each.grounded for each in stream.finish()] == [False]


CHUNKS = ["Refunds are paid back ", "within five working days.", " The moon is", " made of cheese.",
          " Really", "."]  # fmt: skip


def test_stream_is_passed_on_and_each_sentence_reported():
    told = []
    assert list(check_stream(CHUNKS, CONTEXTS, told.append)) == CHUNKS
    assert [each.grounded for each in told][:2] == [True, False]


def test_stream_ends_before_the_chunk_that_completes_a_rejected_sentence():
    closed = []

    def source():
        try:
            yield from CHUNKS
        finally:
            closed.append(True)

    passed = list(check_stream(source(), CONTEXTS, lambda each: each.grounded))
    assert passed == CHUNKS[:4]
    assert closed == [True]


def test_async_stream_is_checked_like_a_sync_one():
    async def source():
        for chunk in CHUNKS:
            yield chunk

    async def passed():
        checked = acheck_stream(source(), CONTEXTS, lambda each: each.grounded)
        return [chunk async for chunk in checked]

    assert asyncio.run(passed()) == CHUNKS[:4]


def test_checked_watched_generator_is_still_a_generator():
    hook = Hook(app="shop", enabled=False)

    @hook.watch
    def answer(query, contexts):
        yield from check_stream(CHUNKS, contexts, lambda each: each.grounded)

    assert list(answer("How long?", CONTEXTS)) == CHUNKS[:4]


def test_check_stream_accepts_object_chunks():
    objects = [{"delta": chunk} for chunk in CHUNKS]
    found = check_stream(
        objects, CONTEXTS, lambda each: each.grounded, text_of=lambda chunk: chunk["delta"]
    )
    assert list(found) == objects[:4]


def test_internal_error_of_the_check_does_not_end_the_stream(monkeypatch):
    def broken(text):
        raise RuntimeError(text)

    monkeypatch.setattr(entailment, "split_sentences", broken)
    assert list(check_stream(CHUNKS, CONTEXTS, lambda _: False)) == CHUNKS


def test_error_in_the_callers_check_is_raised_to_the_caller():
    def refuse(each):
        raise ValueError(each.sentence)

    with pytest.raises(ValueError, match="Refunds"):
        list(check_stream(CHUNKS, CONTEXTS, refuse))


def test_streaming_work_grows_linearly_with_the_answer(monkeypatch):
    """The work grows with the length of the answer, not with its square."""
    read = []
    split = entailment.split_sentences
    monkeypatch.setattr(
        entailment, "split_sentences", lambda text: (read.append(len(text)), split(text))[1]
    )

    def work(sentences):
        read.clear()
        stream = StreamingGrounding([], entailment=lambda *_: 0.0)
        for word in ("The city council opened a new library there. " * sentences).split(" "):
            stream.feed(word + " ")
        return sum(read)

    assert work(80) < 2.2 * work(40)
