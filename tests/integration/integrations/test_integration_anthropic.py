"""The Anthropic client answers as before; what it was asked and answered is recorded."""

import asyncio
import importlib

import pytest

from monitor.integrations import retrieved
from monitor.integrations.anthropic import watch_anthropic
from support.openai_server import OpenAIServer

ASKED = [{"role": "user", "content": "How long?"}]
CALLED = [
    *ASKED,
    {"role": "assistant", "content": [
        {"type": "tool_use", "id": "t", "name": "find", "input": {"k": 1}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "found"}]},
]  # fmt: skip
REQUEST = {"model": "m", "max_tokens": 50}


@pytest.fixture(scope="module")
def anthropic():
    """Loaded by those who test it: it takes a second, and every process of pytest collects."""
    return importlib.import_module("anthropic")


@pytest.fixture
def server():
    with OpenAIServer() as server:
        yield server


def made(kind, server, hook):
    url = server.url.removesuffix("/v1")
    return watch_anthropic(kind(base_url=url, api_key="k", max_retries=0), hook=hook)


@pytest.fixture
def client(anthropic, server, hook):
    return made(anthropic.Anthropic, server, hook)


def checked(it):
    """Look at the record of the question above."""
    assert (it.query, it.output) == ("How long?", "Five days.")
    assert [context.text for context in it.contexts] == ["c"]
    cost = {"model": "m-1", "input_tokens": 12, "output_tokens": 3}
    assert cost.items() <= it.metadata.items()
    assert it.metadata["latency_ms"] > 0


def test_message_is_recorded_whole_streamed_and_in_a_block(client, recorded):
    with retrieved(["c"]):
        assert client.messages.create(**REQUEST, messages=ASKED).content[0].text == "Five days."
        assert list(client.messages.create(**REQUEST, messages=ASKED, stream=True))
        with client.messages.stream(**REQUEST, messages=ASKED) as stream:
            assert "".join(stream.text_stream) == "Five days."
    records = recorded()
    assert len(records) == 3
    for it in records:
        checked(it)


def test_async_client_is_recorded(anthropic, server, hook, recorded):
    async def use():
        client = made(anthropic.AsyncAnthropic, server, hook)
        with retrieved(["c"]):
            await client.messages.create(**REQUEST, messages=ASKED)
            async with client.messages.stream(**REQUEST, messages=ASKED) as stream:
                return [text async for text in stream.text_stream]

    assert "".join(asyncio.run(use())) == "Five days."
    records = recorded()
    assert len(records) == 2
    for it in records:
        checked(it)


def test_tools_and_their_results_are_recorded_with_the_answer(client, recorded):
    client.messages.create(**REQUEST, messages=CALLED)
    [call] = recorded()[0].tool_calls
    assert (call.name, call.arguments, call.result) == ("find", {"k": 1}, "found")


def test_abandoned_stream_is_marked_incomplete(client, recorded):
    with client.messages.stream(**REQUEST, messages=ASKED) as stream:
        assert next(iter(stream.text_stream)) == "Five"
    assert recorded()[0].metadata["incomplete"] is True


def test_refused_call_is_counted_and_raised_unchanged(anthropic, client, server, hook):
    server.fails = True
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(**REQUEST, messages=ASKED)
    assert hook.stats()["errored"] == {"BadRequestError": 1}
