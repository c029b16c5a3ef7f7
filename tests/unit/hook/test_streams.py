"""What passes of a stream is recorded once, whole or as incomplete, and its failures counted."""

import asyncio

import pytest

from monitor.hook.watch import AnyChunks, Following


class Told:
    """What one `Following` said, and how often it asked for what."""

    def __init__(self, rate=1.0, metadata=None):
        self.taken, self.failed, self.chosen, self.asked = [], [], 0, 0
        self.rate, self.metadata = rate, metadata
        self.following = Following(
            chance=self.chance,
            piece=lambda chunk: chunk if isinstance(chunk, str) else None,
            asked=self.ask,
            take=lambda given, answer, others, rate: self.taken.append(
                (given, answer, others, rate)
            ),
            fail=lambda error, *, counted: self.failed.append((error, counted)),
        )

    def chance(self):
        self.chosen += 1
        return self.rate

    def ask(self):
        self.asked += 1
        return {"query": "q"} | ({"metadata": self.metadata} if self.metadata else {})


class Stream:
    """Read in either way; it ends with its last chunk, or with an error."""

    def __init__(self, *chunks):
        self.chunks, self.model = iter(chunks), "m"

    def __iter__(self):
        return self

    def __next__(self):
        chunk = next(self.chunks)
        if isinstance(chunk, Exception):
            raise chunk
        return chunk

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None


def read_plainly(stream):
    return list(stream)


def read_later(stream):
    async def read():
        return [chunk async for chunk in stream]

    return asyncio.run(read())


both = pytest.mark.parametrize("read", [read_plainly, read_later])


@both
def test_stream_that_ends_is_recorded_whole_and_once(read):
    told = Told(rate=0.5)
    stream = AnyChunks(Stream({"id": 1}, "a", "b", {"id": 2}), told.following)
    assert read(stream) == [{"id": 1}, "a", "b", {"id": 2}]
    assert stream.model == "m"
    del stream
    assert told.taken == [({"query": "q"}, "ab", [{"id": 1}, {"id": 2}], 0.5)]
    assert (told.failed, told.chosen, told.asked) == ([], 1, 1)


@both
@pytest.mark.parametrize(
    ("before", "counted"), [((), False), (({"id": 1},), False), (("a",), True)]
)
def test_stream_that_fails_is_counted_with_its_error_once(read, before, counted):
    told, error = Told(), OSError("gone")
    stream = AnyChunks(Stream(*before, error), told.following)
    with pytest.raises(OSError, match="gone"):
        read(stream)
    del stream
    assert told.failed == [(error, counted)]
    assert [answer for _, answer, _, _ in told.taken] == (["a"] if counted else [])


@pytest.mark.parametrize("metadata", [None, {"k": 1}])
def test_abandoned_stream_is_marked_beside_the_apps_metadata(metadata):
    told = Told(metadata=metadata)
    stream = AnyChunks(Stream("a", "b"), told.following)
    next(stream)
    del stream
    [(given, answer, _, _)] = told.taken
    assert (answer, given["metadata"]) == ("a", {**(metadata or {}), "incomplete": True})


def test_unsampled_stream_is_neither_read_nor_decided_again():
    told = Told(rate=0.0)
    assert read_plainly(AnyChunks(Stream("a", "b"), told.following)) == ["a", "b"]
    assert (told.taken, told.chosen, told.asked) == ([], 1, 0)


def test_stream_without_a_text_is_not_counted():
    told = Told()
    assert read_plainly(AnyChunks(Stream({"id": 1}), told.following)) == [{"id": 1}]
    assert (told.taken, told.chosen) == ([], 0)


def test_stream_keeps_its_first_chunk_and_later_non_text_chunks():
    told = Told()
    read_plainly(AnyChunks(Stream("a", "b", {"id": 2}), told.following))
    assert [others for _, _, others, _ in told.taken] == [["a", {"id": 2}]]


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_stream_closed_early_is_incomplete_and_closed(kind):
    told = Told()
    stream = AnyChunks(Stream("a", "b"), told.following)
    next(stream)

    def close():
        return "closed"

    async def close_later():
        return "closed"

    if kind == "plain":
        assert told.following.closing(close)() == "closed"
    else:
        assert asyncio.run(told.following.closing(close_later)()) == "closed"
    assert [given["metadata"] for given, _, _, _ in told.taken] == [{"incomplete": True}]
