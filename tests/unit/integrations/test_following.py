"""A stream's chunks pass one by one; what is kept is decided at the first text."""

import asyncio

import pytest

from monitor.hook.watch import LONGEST_STREAM, AsyncChunks, Chunks, Following


class Followed:
    """A stream that is followed, and what was taken of it."""

    def __init__(self, rate=1.0):
        self.rate = rate
        self.asked = 0
        self.taken, self.failed = [], []
        self.following = Following(
            chance=self.chance,
            piece=lambda chunk: chunk if isinstance(chunk, str) else None,
            asked=lambda: {"query": "q"},
            take=lambda *taken: self.taken.append(taken),
            fail=lambda error, counted: self.failed.append((type(error), counted)),
        )

    def chance(self):
        self.asked += 1
        return self.rate


def test_stream_is_recorded_once_with_its_text_and_other_chunks():
    followed = Followed(0.5)
    chunks = Chunks(iter([None, "a", "b", 7]), followed.following)
    assert list(chunks) == [None, "a", "b", 7]
    del chunks
    assert (followed.asked, followed.taken) == (1, [({"query": "q"}, "ab", [None, 7], 0.5)])


def test_async_stream_is_recorded_once():
    async def words():
        yield "a"
        yield "b"

    async def use():
        return [chunk async for chunk in AsyncChunks(words(), followed.following)]

    followed = Followed()
    assert asyncio.run(use()) == ["a", "b"]
    assert followed.taken == [({"query": "q"}, "ab", ["a"], 1.0)]


def test_stream_without_text_needs_no_sampling_decision():
    followed = Followed()
    list(Chunks(iter([None, 7]), followed.following))
    assert (followed.asked, followed.taken) == (0, [])


def test_unsampled_stream_is_not_read():
    followed = Followed(0.0)
    assert list(Chunks(iter(["a"] * 5), followed.following)) == ["a"] * 5
    assert (followed.asked, followed.taken) == (1, [])


def test_stream_that_fails_is_incomplete_and_fails_as_before():
    def words():
        yield "a"
        raise KeyError("mine")

    followed = Followed()
    chunks = Chunks(words(), followed.following)
    next(chunks)
    with pytest.raises(KeyError, match="mine"):
        next(chunks)
    [(given, answer, _, _)] = followed.taken
    assert (given["metadata"], answer) == ({"incomplete": True}, "a")


def test_wrapped_generator_can_still_be_closed():
    closed = []

    def words():
        try:
            yield "a"
        finally:
            closed.append(True)

    chunks = Chunks(words(), Followed().following)
    next(chunks)
    chunks.close()
    assert closed


def test_endless_stream_is_kept_in_part():
    followed = Followed()
    for _ in Chunks(iter(["x" * 1_000_000] * 5), followed.following):
        pass
    assert len(followed.taken[0][1]) == LONGEST_STREAM
