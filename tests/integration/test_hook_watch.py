"""`watch` and `interaction` record what passes and change nothing for the host."""

import asyncio
import functools
import inspect
import types

import pytest
import redis

import monitor
from monitor.hook.interaction import FIELDS, OpenInteraction
from monitor.queue import names, wire


@pytest.fixture
def hook(redis_url):
    hook = monitor.Hook(sample_rate=1.0, redis_url=redis_url)
    yield hook
    hook.close(0.2)


@pytest.fixture
def recorded(hook, redis_url):
    """What arrived: (query, contexts, output) of each record, or whole interactions."""

    def read(*, whole=False):
        assert hook.flush(60)
        with redis.Redis.from_url(redis_url) as client:
            entries = [wire.decode(fields) for _, fields in client.xrange(names.SAMPLES)]
        if whole:
            return [entry.interaction for entry in entries]
        return [
            (e.interaction.query, [c.text for c in e.interaction.contexts], e.interaction.output)
            for e in entries
        ]

    return read


def test_sync_function_is_recorded(hook, recorded):
    @hook.watch
    def answer(question, contexts):
        """Doc."""
        return "a"

    assert answer("q", contexts=["c"]) == "a"
    assert (answer.__name__, answer.__doc__) == ("answer", "Doc.")
    assert recorded() == [("q", ["c"], "a")]


@pytest.mark.parametrize(
    "result",
    [{"answer": "a", "documents": ["c"]}, {"output": "a", "contexts": ["c"]},
     types.SimpleNamespace(content="a", passages=["c"])],
)  # fmt: skip
def test_answer_and_passages_are_found_in_the_result(hook, recorded, result):
    assert hook.watch(lambda prompt: result)("q") is result
    assert recorded() == [("q", ["c"], "a")]


def test_named_parts_are_used_when_arguments_say_so(hook, recorded):
    @hook.watch(query="topic", contexts="found", output="said", tags={"lang": "en"})
    def answer(user, topic="default"):
        return {"said": "a", "found": ["c"], "answer": "no"}

    answer("u")
    [interaction] = recorded(whole=True)
    assert (interaction.query, interaction.output, interaction.tags) == (
        "default",
        "a",
        {"lang": "en"},
    )
    assert interaction.contexts[0].text == "c"


def test_first_text_argument_is_the_query_by_default(hook, recorded):
    class Bot:
        @hook.watch
        def ask(self, n, what):
            return "a"

        @staticmethod
        @hook.watch
        def one(what):
            return "b"

        @hook.watch
        @classmethod
        def two(cls, what):
            return "c"

    assert (Bot().ask(1, "q"), Bot.one("r"), Bot.two("s")) == ("a", "b", "c")
    assert [query for query, _, _ in recorded()] == ["q", "r", "s"]


def test_watched_async_function_stays_async(hook, recorded):
    @hook.watch
    async def answer(query):
        await asyncio.sleep(0)
        return "a"

    assert inspect.iscoroutinefunction(answer)
    assert asyncio.run(answer("q")) == "a"
    assert recorded() == [("q", [], "a")]


def test_generator_streams_through_and_behaves_as_before(hook, recorded):
    @hook.watch
    def answer(query):
        got = yield "a"
        try:
            yield got
        except KeyError:
            yield "c"
        return 7

    assert inspect.isgeneratorfunction(answer)
    stream = answer("q")
    assert (next(stream), stream.send("b"), stream.throw(KeyError())) == ("a", "b", "c")
    with pytest.raises(StopIteration) as end:
        next(stream)
    assert end.value.value == 7
    assert recorded() == [("q", [], "abc")]


def test_async_generator_streams_through_and_behaves_as_before(hook, recorded):
    @hook.watch
    async def answer(query):
        got = yield {"text": "a", "documents": ["d"]}
        try:
            yield got
        except KeyError:
            yield "c"

    async def use():
        stream = answer("q")
        return [
            await stream.asend(None),
            await stream.asend("b"),
            await stream.athrow(KeyError()),
        ], [chunk async for chunk in stream]

    assert inspect.isasyncgenfunction(answer)
    assert asyncio.run(use()) == ([{"text": "a", "documents": ["d"]}, "b", "c"], [])
    assert recorded() == [("q", ["d"], "abc")]


def test_abandoned_stream_is_recorded_as_incomplete(hook, recorded):
    closed = []

    @hook.watch
    def answer(query):
        try:
            yield "a"
            yield "b"
        finally:
            closed.append(True)

    stream = answer("q")
    next(stream)
    stream.close()
    [interaction] = recorded(whole=True)
    assert (interaction.output, interaction.metadata) == ("a", {"incomplete": True})
    assert closed


def test_exception_is_raised_unchanged_and_not_counted_as_a_sample(hook, recorded):
    error = KeyError("mine")

    @hook.watch
    def sync(query):
        raise error

    @hook.watch
    def generator(query):
        raise error
        yield

    for call in (lambda: sync("q"), lambda: list(generator("q"))):
        with pytest.raises(KeyError) as caught:
            call()
        assert caught.value is error
    assert recorded() == []
    assert hook.stats()["seen"] == 0


def test_result_without_an_answer_is_counted(hook, recorded):
    stream = iter(["a"])
    assert hook.watch(lambda query: stream)("q") is stream
    assert list(stream) == ["a"]
    assert recorded() == []
    assert hook.stats()["dropped"] == {"no_output": 1}


@pytest.mark.parametrize("target", [functools.partial(str, b"x", "ascii"), len, dict])
def test_any_callable_can_be_watched(hook, target):
    arguments = () if isinstance(target, functools.partial) else ([],)
    assert hook.watch(target)(*arguments) == target(*arguments)


def test_non_callable_is_returned_unchanged(hook, caplog):
    assert hook.watch("no function") == "no function"
    assert "watch_not_a_function" in caplog.text


def injecting(function):
    """A decorator that hands over an argument of its own, as those for sessions do."""

    @functools.wraps(function)
    def with_client(*args, **kwargs):
        return function("a client", *args, **kwargs)

    return with_client


def injecting_by_name(function):
    @functools.wraps(function)
    def with_client(k, query, **kwargs):
        return function("a client", query, k, **kwargs)

    return with_client


def test_question_is_found_behind_an_argument_passing_decorator(hook, recorded):
    def answer(client, query, k=3, contexts=()):
        return f"{client}: {query}"

    assert hook.watch(injecting(answer))("q") == "a client: q"
    assert hook.watch(injecting_by_name(answer))(5, "q", contexts=["c"]) == "a client: q"
    assert recorded() == [("q", [], "a client: q"), ("q", ["c"], "a client: q")]


def test_cached_function_keeps_its_cache(hook):
    @hook.watch
    @functools.lru_cache
    def answer(query):
        return object()

    assert answer("q") is answer("q")
    assert answer.cache_info().hits == 1
    answer.cache_clear()
    assert answer.cache_info().currsize == 0


def test_unknown_parameter_name_is_logged_and_the_call_works(hook, recorded, caplog):
    assert hook.watch(query="nosuch")(lambda text: "a")("q") == "a"
    assert "watch_unknown_parameter name='nosuch'" in caplog.text
    assert recorded() == [("q", [], "a")]


def test_interaction_records_values_set_one_by_one(hook, recorded):
    with hook.interaction(query="q", session_id="s") as it:
        it.contexts = ["c"]
        it.tool_call("search", arguments={"k": 1}, result="r", duration_ms=2.5)
        it.output = "a"
        it.tags = {"lang": "en"}
        it.cache_hit = True
    [interaction] = recorded(whole=True)
    assert (interaction.query, interaction.output, interaction.session_id) == ("q", "a", "s")
    assert interaction.tool_calls[0].model_dump(exclude_none=True) == {
        "name": "search", "arguments": {"k": 1}, "result": "r", "duration_ms": 2.5,
    }  # fmt: skip
    assert (interaction.tags, interaction.metadata) == ({"lang": "en"}, {"cache_hit": True})


def test_every_documented_field_is_an_attribute_that_type_checkers_know():
    assert OpenInteraction.__annotations__.keys() >= FIELDS


def test_interaction_works_in_async_code(hook, recorded):
    async def use():
        async with hook.interaction(query="q") as it:
            it.output = "a"

    asyncio.run(use())
    assert recorded() == [("q", [], "a")]


@pytest.mark.parametrize(("output", "seen"), [(None, 0), ("partial", 1)])
def test_exception_in_an_interaction_is_raised_unchanged(hook, recorded, output, seen):
    error = RuntimeError("mine")

    def use():
        with hook.interaction(query="q") as it:
            it.output = output
            raise error

    with pytest.raises(RuntimeError) as caught:
        use()
    assert caught.value is error
    assert len(recorded()) == hook.stats()["seen"] == seen


def test_trace_id_decides_sampling_of_an_interaction(redis_url):
    hook = monitor.Hook(sample_rate=0.5, redis_url=redis_url)
    for trace_id in ("0" * 32, "f" * 32):
        with hook.interaction(trace_id=trace_id) as it:
            it.output = "a"
        hook.sample(output="a", trace_id=trace_id)
    assert (hook.stats()["seen"], hook.stats()["sampled"]) == (4, 2)
    assert hook.close(60)
