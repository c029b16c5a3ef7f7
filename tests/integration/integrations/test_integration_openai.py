"""The OpenAI client answers as before; what it was asked and answered is recorded."""

import asyncio
import gc

import openai
import pytest
from opentelemetry.sdk.trace import TracerProvider

from monitor.integrations import retrieved
from monitor.integrations.openai import watch_openai
from support.openai_server import CALL, OpenAIServer, chat_events, response_events

ASKED = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Before?"},
    {"role": "assistant", "content": "Yes."},
    {"role": "user", "content": [{"type": "text", "text": "How long?"}]},
]


@pytest.fixture
def server():
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def client(server, hook):
    with openai.OpenAI(base_url=server.url, api_key="k", max_retries=0) as client:
        yield watch_openai(client, hook=hook)


@pytest.fixture
def async_client(server, hook):
    return watch_openai(
        openai.AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0), hook=hook
    )


def chat(client, **more):
    return client.chat.completions.create(model="m", messages=ASKED, **more)


def cost(interaction):
    """What the record says of the call, but how long it took."""
    metadata = dict(interaction.metadata)
    assert 0 < metadata.pop("latency_ms") < 60_000
    return metadata


def parts(interaction):
    contexts = [context.text for context in interaction.contexts]
    return interaction.query, contexts, interaction.output


def test_chat_completion_is_recorded(client, recorded):
    with retrieved(["Refunds take five days."]):
        reply = chat(client)
    assert type(reply).__name__ == "ChatCompletion"
    [it] = recorded()
    assert parts(it) == ("How long?", ["Refunds take five days."], "Five days.")
    assert cost(it) == {"model": "m-1", "input_tokens": 12, "output_tokens": 3}
    assert [turn.content for turn in it.history] == ["Before?", "Yes."]


@pytest.mark.parametrize("stream", [False, True])
def test_raw_response_is_recorded(client, recorded, stream):
    raw = client.chat.completions.with_raw_response.create(
        model="m", messages=ASKED, **({"stream": True} if stream else {})
    )
    assert raw.headers["content-type"]
    parsed = raw.parse()
    if stream:
        assert list(parsed)
    else:
        assert parsed.choices[0].message.content == "Five days."
    assert [it.output for it in recorded()] == ["Five days."]


def test_raw_response_of_the_async_client_is_recorded(async_client, recorded):
    async def ask():
        create = async_client.chat.completions.with_raw_response.create
        return (await create(model="m", messages=ASKED)).parse()

    assert asyncio.run(ask()).choices[0].message.content == "Five days."
    assert [it.output for it in recorded()] == ["Five days."]


@pytest.mark.parametrize("stream", [False, True])
def test_active_trace_id_is_recorded(client, recorded, stream):
    with TracerProvider().get_tracer("t").start_as_current_span("POST /ask") as span:
        reply = chat(client, stream=stream)
    list(reply)
    assert recorded()[0].trace_id == format(span.get_span_context().trace_id, "032x")


def test_response_is_recorded(client, recorded):
    with retrieved(["c"]):
        assert client.responses.create(model="m", input="How long?").output_text == "Five days."
    client.responses.create(model="m", input=ASKED[2:])
    assert [parts(it) for it in recorded()] == [
        ("How long?", ["c"], "Five days."),
        ("How long?", [], "Five days."),
    ]


def test_async_client_is_recorded(async_client, recorded):
    async def use():
        with retrieved(["c"]):
            await chat(async_client)
            await async_client.responses.create(model="m", input="How long?")
            stream = await chat(async_client, stream=True)
        return [chunk async for chunk in stream]

    assert len(asyncio.run(use())) == len(chat_events())
    assert [parts(it) for it in recorded()] == [("How long?", ["c"], "Five days.")] * 3


def test_streamed_chat_is_not_delayed_and_is_recorded(client, server, hook, recorded):
    server.go_on.clear()
    with retrieved(["c"]):
        stream = chat(client, stream=True)
    assert type(stream) is openai.Stream
    assert next(stream).choices[0].delta.role == "assistant"
    assert next(stream).choices[0].delta.content == "Five"  # while the rest is still to come
    server.go_on.set()
    rest = list(stream)
    assert len(rest) == len(chat_events()) - 2
    [it] = recorded()
    assert parts(it) == ("How long?", ["c"], "Five days.")
    assert [(call.name, call.arguments) for call in it.tool_calls] == [("find", {"k": 1})]


def test_first_of_several_choices_is_recorded_unmixed(client, recorded):
    chunks = list(chat(client, stream=True, n=2))
    assert len(chunks) == 2 * len(chat_events())
    [it] = recorded()
    assert parts(it) == ("How long?", [], "Five days.")
    assert [(call.name, call.arguments) for call in it.tool_calls] == [("find", {"k": 1})]


def test_streamed_answer_keeps_the_passages_at_call_time(client, server, recorded):
    passages = ["c"]
    with retrieved(passages):
        stream = chat(client, stream=True)
        next(stream)
        passages[:] = ["later"]
        list(stream)
    assert [context.text for context in recorded()[0].contexts] == ["c"]


def test_streamed_response_is_recorded(client, recorded):
    kinds = [event.type for event in client.responses.create(model="m", input="q", stream=True)]
    assert kinds == [event["type"] for event in response_events()]
    [it] = recorded()
    assert parts(it) == ("q", [], "Five days.")
    assert cost(it) == {"model": "m-1", "input_tokens": 12, "output_tokens": 3}


def test_stream_helpers_of_the_client_work_as_before(client, recorded):
    with client.chat.completions.stream(model="m", messages=ASKED) as stream:
        stream.until_done()
        assert stream.get_final_completion().choices[0].message.content == "Five days."
    with client.responses.stream(model="m", input="q") as events:
        assert events.get_final_response().output_text == "Five days."
    assert [parts(it) for it in recorded()] == [
        ("How long?", [], "Five days."),
        ("q", [], "Five days."),
    ]


def test_parsed_completion_is_recorded(client, recorded):
    client.chat.completions.parse(model="m", messages=ASKED)
    client.responses.parse(model="m", input="q")
    assert [it.query for it in recorded()] == ["How long?", "q"]


@pytest.mark.parametrize("stream", [False, True])
def test_older_completion_is_recorded(client, recorded, stream):
    reply = client.completions.create(model="m", prompt="How long?", stream=stream)
    if stream:
        assert "".join(chunk.choices[0].text for chunk in reply) == "Five days."
    [it] = recorded()
    assert (it.query, it.output) == ("How long?", "Five days.")
    assert not it.history


def test_parsed_completion_of_the_beta_client_is_recorded(client, recorded):
    client.beta.chat.completions.parse(model="m", messages=ASKED)
    [it] = recorded()
    assert it.output == "Five days."


def test_tokens_of_a_stream_come_with_its_last_chunk(client, recorded):
    list(chat(client, stream=True, stream_options={"include_usage": True}))
    [it] = recorded()
    assert cost(it) == {"model": "m-1", "input_tokens": 12, "output_tokens": 3}


def test_abandoned_stream_is_incomplete(client, recorded):
    with chat(client, stream=True) as stream:
        next(stream), next(stream)
    [it] = recorded()
    assert (it.output, cost(it)) == ("Five", {"model": "m-1", "incomplete": True})


def test_response_that_is_left_early_keeps_its_model(client, recorded):
    with client.responses.create(model="m", input="q", stream=True) as events:
        for event in events:
            if event.type == "response.output_text.delta":
                break
    [it] = recorded()
    assert cost(it) == {"model": "m-1", "incomplete": True}


def test_abandoned_async_stream_is_incomplete(async_client, recorded):
    async def use():
        async with await chat(async_client, stream=True) as stream:
            await anext(stream), await anext(stream)

    asyncio.run(use())
    [it] = recorded()
    assert (it.output, cost(it)) == ("Five", {"model": "m-1", "incomplete": True})


def test_abandoned_stream_is_recorded_when_garbage_collected(client, recorded):
    stream = chat(client, stream=True)
    next(stream), next(stream)
    stream.response.close()
    del stream
    gc.collect()
    assert recorded()[0].output == "Five"


def test_reply_that_only_calls_a_tool_is_no_interaction(client, server, hook, recorded):
    server.calls_tool = True
    assert chat(client).choices[0].message.tool_calls[0].id == "call_1"
    client.responses.create(model="m", input="q")
    assert recorded() == []
    assert hook.stats()["seen"] == 0


def test_tools_that_led_to_the_answer_are_on_its_record(client, recorded):
    client.chat.completions.create(
        model="m",
        messages=[
            *ASKED,
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "found"},
        ],
    )
    items = [
        {"type": "function_call", "call_id": "c", "name": "find", "arguments": '{"k": 1}'},
        {"type": "function_call_output", "call_id": "c", "output": "found"},
    ]
    client.responses.create(model="m", input=[{"role": "user", "content": "q"}, *items])
    for it in recorded():
        [found] = it.tool_calls
        assert (found.name, found.arguments, found.result) == ("find", {"k": 1}, "found")


def test_contexts_may_be_read_from_the_messages(server, hook, recorded):
    with openai.OpenAI(base_url=server.url, api_key="k") as client:
        watch_openai(client, hook=hook, contexts=lambda m: [m[0]["content"]], tags={"a": "b"})
        chat(client)
    [it] = recorded()
    assert (it.contexts[0].text, it.tags) == ("Be brief.", {"a": "b"})


def test_error_while_reading_contexts_loses_only_the_contexts(server, hook, recorded):
    with openai.OpenAI(base_url=server.url, api_key="k") as client:
        chat(watch_openai(client, hook=hook, contexts=lambda messages: 1 / 0))
    assert parts(recorded()[0]) == ("How long?", [], "Five days.")


def test_copied_client_records_each_call_once(client, hook, recorded):
    chat(watch_openai(client, hook=hook).with_options(timeout=5).copy())
    assert len(recorded()) == 1


def test_streaming_response_passes_unread(client, recorded):
    with client.chat.completions.with_streaming_response.create(model="m", messages=ASKED) as reply:
        assert b"Five days." in reply.read()
    assert recorded() == []


def test_error_of_the_client_is_raised_unchanged(client, server, recorded):
    server.fails = True
    with pytest.raises(openai.BadRequestError):
        chat(client)
    with pytest.raises(TypeError):
        client.chat.completions.create()
    assert recorded() == []


def test_internal_error_does_not_reach_the_app(server, broken):
    with openai.OpenAI(base_url=server.url, api_key="k") as client:
        watch_openai(client, hook=broken)
        assert chat(client).choices[0].message.content == "Five days."
        assert len(list(chat(client, stream=True))) == len(chat_events())


def test_sampling_is_decided_once_for_an_unsampled_call(server, unsampled):
    with openai.OpenAI(base_url=server.url, api_key="k") as client:
        watch_openai(client, hook=unsampled, contexts=lambda messages: pytest.fail("was read"))
        chat(client)
        list(chat(client, stream=True))
    assert (unsampled.asked, unsampled.taken) == (2, [])


def test_object_that_is_no_client_is_returned_unchanged(caplog):
    assert watch_openai(thing := object()) is thing
    assert "client_lacks_methods client=object missing=chat.completions.create" in caplog.text
