"""Functions such as LiteLLM's answer as before; what they were asked and answered is recorded."""

import asyncio
from types import SimpleNamespace

import openai
import pytest

from monitor.integrations import retrieved
from monitor.integrations.litellm import watch_litellm
from support.openai_server import OpenAIServer

ASKED = [{"role": "user", "content": "How long?"}]


class Stream:
    """A stream that is read in either way, as LiteLLM's is."""

    def __init__(self, inner):
        self.inner = iter(inner)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.inner)

    def __aiter__(self):
        return self

    async def __anext__(self):
        for chunk in self.inner:
            return chunk
        raise StopAsyncIteration


@pytest.fixture
def server():
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def litellm(server, hook):
    """Functions as the library has them, in front of a real endpoint."""
    client = openai.OpenAI(base_url=server.url, api_key="k", max_retries=0)

    def completion(model, messages=(), **more):
        reply = client.chat.completions.create(model=model, messages=messages, **more)
        return Stream(reply) if more.get("stream") else reply

    async def acompletion(model, messages=(), **more):
        return completion(model, messages, **more)

    functions = SimpleNamespace(completion=completion, acompletion=acompletion)
    return watch_litellm(functions, hook=hook)


def test_answers_are_recorded_whole_and_streamed_sync_and_async(litellm, recorded):
    async def ask():
        await litellm.acompletion("m", ASKED)
        stream = await litellm.acompletion("m", ASKED, stream=True)
        return [chunk async for chunk in stream]

    with retrieved(["c"]):
        assert litellm.completion("m", ASKED).choices[0].message.content == "Five days."
        chunks = list(litellm.completion(model="m", messages=ASKED, stream=True))
        assert len(chunks) == len(asyncio.run(ask()))
    records = recorded()
    found = [(it.query, [c.text for c in it.contexts], it.output) for it in records]
    assert found == [("How long?", ["c"], "Five days.")] * 4
    assert {it.metadata["model"] for it in records} == {"m-1"}


def test_failed_call_is_counted_and_raised(litellm, server, hook):
    server.fails = True
    with pytest.raises(openai.BadRequestError):
        litellm.completion("m", ASKED)
    assert hook.stats()["errored"] == {"BadRequestError": 1}
