"""Span attributes of every convention become the same fields of a record."""

import json

import pytest

from monitor.integrations.spans import ignored_because, kind_of, read, read_resource

ASKED, SAID = "How long?", "Five days."

GENAI_NEW = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "m",
    "gen_ai.conversation.id": "s",
    "gen_ai.input.messages": json.dumps([
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "content": ASKED}]},
    ]),
    "gen_ai.output.messages": json.dumps([
        {"role": "assistant", "finish_reason": "stop",
         "parts": [{"type": "reasoning", "content": "Hm."}, {"type": "text", "content": SAID}]},
    ]),
}  # fmt: skip
GENAI_OLD = {
    "gen_ai.system": "openai",
    "gen_ai.request.model": "m",
    "session.id": "s",
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": "Be brief.",
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": ASKED,
    "gen_ai.completion.0.content": SAID,
    "gen_ai.completion.0.role": "assistant",
}
OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "m",
    "session.id": "s",
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.contents.0.message_content.type": "text",
    "llm.input_messages.0.message.contents.0.message_content.text": ASKED,
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": SAID,
}
OPENINFERENCE_VALUES = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "m",
    "session.id": "s",
    "input.value": json.dumps({"messages": [{"role": "user", "content": ASKED}]}),
    "output.value": SAID,
}


LANGFUSE = {
    "langfuse.observation.type": "generation",
    "langfuse.observation.input": json.dumps(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": ASKED},
        ]
    ),
    "langfuse.observation.output": json.dumps({"role": "assistant", "content": SAID}),
    "langfuse.observation.model.name": "m",
    "session.id": "s",
}
MLFLOW = {
    "mlflow.spanType": '"CHAT_MODEL"',
    "mlflow.spanInputs": json.dumps({"messages": [{"role": "user", "content": ASKED}]}),
    "mlflow.spanOutputs": json.dumps({"choices": [{"message": {"content": SAID}}]}),
    "mlflow.llm.model": '"m"',
    "mlflow.trace.session": '"s"',
}
VERCEL = {
    "ai.operationId": "ai.streamText.doStream",
    "gen_ai.system": "openai",
    "ai.model.id": "m",
    "ai.prompt.messages": json.dumps(
        [{"role": "user", "content": [{"type": "text", "text": ASKED}]}]
    ),
    "ai.response.text": SAID,
    "ai.telemetry.metadata.sessionId": "s",
}
LANGSMITH = {
    "langsmith.span.kind": "llm",
    "gen_ai.system": "langchain",
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m",
    "langsmith.metadata.session_id": "s",
    "gen_ai.prompt": json.dumps(
        {
            "messages": [
                [
                    {
                        "lc": 1,
                        "type": "constructor",
                        "id": ["langchain", "schema", "HumanMessage"],
                        "kwargs": {"content": ASKED, "type": "human"},
                    },
                ]
            ]
        }
    ),
    "gen_ai.completion": json.dumps({"generations": [[{"text": SAID, "generation_info": {}}]]}),
}
TRACELOOP = {
    "gen_ai.system": "openai",
    "gen_ai.request.model": "m",
    "traceloop.association.properties.session_id": "s",
    "gen_ai.input.messages": json.dumps([{"role": "user", "content": ASKED}]),
    "gen_ai.output.messages": json.dumps([{"role": "unknown", "content": SAID}]),
}


@pytest.mark.parametrize(
    "attributes",
    [GENAI_NEW, GENAI_OLD, OPENINFERENCE, OPENINFERENCE_VALUES,
     LANGFUSE, MLFLOW, VERCEL, LANGSMITH, TRACELOOP],
)  # fmt: skip
def test_call_of_a_model_is_read_in_every_convention(attributes):
    assert kind_of(attributes) == "model"
    assert read("model", attributes) == {
        "query": ASKED, "output": SAID, "session_id": "s", "metadata": {"model": "m"},
    }  # fmt: skip


@pytest.mark.parametrize(
    "events",
    [
        [("gen_ai.user.message", {"content": ASKED}),
         ("gen_ai.choice", {"message": json.dumps({"content": SAID})})],
        [("gen_ai.content.prompt",
          {"gen_ai.prompt": json.dumps([{"role": "user", "content": ASKED}])}),
         ("gen_ai.content.completion", {"gen_ai.completion": json.dumps([{"content": SAID}])})],
        [("gen_ai.client.inference.operation.details",
          {key: value for key, value in GENAI_NEW.items() if "messages" in key})],
    ],
)  # fmt: skip
def test_messages_may_be_in_events(events):
    found = read("model", {"gen_ai.system": "openai"}, events)
    assert found == {"query": ASKED, "output": SAID}


def test_structured_messages_of_newer_exporters_are_read():
    structured = {
        key: json.loads(value) if "messages" in key else value for key, value in GENAI_NEW.items()
    }
    assert read("model", structured)["output"] == SAID


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"gen_ai.operation.name": "invoke_agent"}, "flow"),
        ({"gen_ai.operation.name": "execute_tool"}, "tool"),
        ({"gen_ai.operation.name": "retrieval"}, "retrieval"),
        ({"gen_ai.operation.name": "embeddings", "gen_ai.system": "openai"}, None),
        ({"openinference.span.kind": "chain"}, "flow"),
        ({"openinference.span.kind": "RERANKER"}, "reranking"),
        ({"openinference.span.kind": "EMBEDDING"}, None),
        ({"http.method": "GET"}, None),
        ({"openinference.span.kind": ("LLM",), "gen_ai.operation.name": 7}, None),
        ({}, None),
    ],
)
def test_span_kind_is_recognised_from_its_attributes(attributes, kind):
    assert kind_of(attributes) == kind


@pytest.mark.parametrize(
    "attributes",
    [
        {"langfuse.observation.type": "span",
         "langfuse.observation.input": json.dumps({"args": [ASKED], "kwargs": {}}),
         "langfuse.observation.output": SAID},
        {"langfuse.observation.type": "chain",
         "langfuse.observation.input": json.dumps({"args": ["<Bot object at 0x7f>", ASKED]}),
         "langfuse.observation.output": json.dumps({"answer": SAID, "documents": []})},
        {"mlflow.spanType": '"UNKNOWN"', "mlflow.spanInputs": json.dumps({"user_words": ASKED}),
         "mlflow.spanOutputs": json.dumps(SAID)},
        {"traceloop.span.kind": "workflow",
         "traceloop.entity.input": json.dumps({"args": [], "kwargs": {"question": ASKED}}),
         "traceloop.entity.output": json.dumps(SAID)},
        {"traceloop.span.kind": "workflow", "gen_ai.operation.name": "invoke_agent",
         "traceloop.entity.input": json.dumps({"inputs": {"question": ASKED}, "tags": []}),
         "traceloop.entity.output": json.dumps({"outputs": {"answer": SAID}, "kwargs": {}})},
        {"langsmith.span.kind": "chain", "gen_ai.operation.name": "chain",
         "gen_ai.system": "langchain", "gen_ai.prompt": json.dumps({"input": ASKED}),
         "gen_ai.completion": json.dumps({"output": SAID})},
        {"ai.operationId": "ai.generateText", "operation.name": "ai.generateText",
         "ai.prompt": json.dumps({"system": "Be brief.", "prompt": ASKED}),
         "ai.response.text": SAID},
    ],
)  # fmt: skip
def test_traced_function_is_a_flow_in_every_convention(attributes):
    assert kind_of(attributes, is_root=True) == "flow"
    assert read("flow", attributes) == {"query": ASKED, "output": SAID}


@pytest.mark.parametrize(
    "attributes",
    [{"langfuse.observation.type": "span"}, {"mlflow.spanType": '"UNKNOWN"'},
     {"traceloop.span.kind": "task"}],
)  # fmt: skip
def test_step_of_a_flow_is_not_a_flow_itself(attributes):
    assert kind_of(attributes) is None
    assert ignored_because(attributes) == "span_no_answer"


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"http.method": "GET"}, "span_other"),
        ({"openinference.span.kind": "EMBEDDING", "llm.model_name": "m"}, "span_no_answer"),
        ({"ai.operationId": "ai.embed.doEmbed"}, "span_no_answer"),
        ({"gen_ai.operation.name": "something new"}, "span_unknown_kind"),
        ({"mlflow.spanType": '"NEW"'}, "span_unknown_kind"),
        ({"langfuse.trace.name": "n"}, "span_unknown_kind"),
    ],
)
def test_ignored_span_has_its_reason(attributes, reason):
    assert kind_of(attributes, is_root=True) is None
    assert ignored_because(attributes) == reason


DOCUMENTS = [{"page_content": "first", "metadata": {"source": "s"}}, {"page_content": "second"}]


@pytest.mark.parametrize(
    "attributes",
    [
        {"mlflow.spanType": '"RETRIEVER"', "mlflow.spanOutputs": json.dumps(DOCUMENTS)},
        {"langfuse.observation.type": "retriever",
         "langfuse.observation.output": json.dumps([{"text": "first", "source": "s"}, "second"])},
        {"langsmith.span.kind": "retriever",
         "gen_ai.completion": json.dumps({"documents": DOCUMENTS})},
        {"gen_ai.operation.name": "vector_db_retrieve",
         "traceloop.entity.output": json.dumps({"documents": [
             {"lc": 1, "type": "constructor", "kwargs": each} for each in DOCUMENTS]})},
    ],
)  # fmt: skip
def test_retrieved_documents_of_other_tracers_are_read(attributes):
    assert kind_of(attributes) == "retrieval"
    assert read("retrieval", attributes)["contexts"] == [
        {"text": "first", "source": "s"}, {"text": "second"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "attributes",
    [
        {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "find",
         "ai.toolCall.args": '{"k": 1}', "ai.toolCall.result": "found"},
        {"langfuse.observation.type": "tool", "langfuse.observation.input": '{"k": 1}',
         "langfuse.observation.output": "found"},
        {"openinference.span.kind": "TOOL", "input.value": '{"k": 1}',
         "output.value": json.dumps({"type": "tool", "data": {"content": "found"}})},
        {"openinference.span.kind": "TOOL", "input.value": '{"k": 1}', "output.value": "found",
         "tool.parameters": json.dumps({"type": "object", "properties": {"k": {}}})},
    ],
)  # fmt: skip
def test_tool_of_other_tracers_is_read(attributes):
    assert kind_of(attributes) == "tool"
    call = {"name": "find", "arguments": {"k": 1}, "result": "found"}
    assert read("tool", attributes, name="find") == {"tool_calls": [call]}


def test_retrieved_documents_are_read_from_numbered_attributes():
    attributes = {
        "openinference.span.kind": "RETRIEVER",
        "input.value": ASKED,
        "retrieval.documents.10.document.content": "last",
        "retrieval.documents.2.document.content": "second",
        "retrieval.documents.0.document.content": "first",
        "retrieval.documents.0.document.id": "d0",
        "retrieval.documents.0.document.score": 0.5,
        "retrieval.documents.0.document.metadata": '{"title": "Terms", "tenant": "x"}',
    }
    assert read("retrieval", attributes) == {
        "query": ASKED,
        "contexts": [
            {"text": "first", "id": "d0", "score": 0.5, "title": "Terms"},
            {"text": "second"}, {"text": "last"},
        ],
    }  # fmt: skip


def test_retrieved_documents_are_read_from_the_new_convention():
    documents = [{"id": "d0", "score": 0.5, "content": "first"}, {"id": "without content"}]
    attributes = {
        "gen_ai.retrieval.query.text": ASKED,
        "gen_ai.retrieval.documents": json.dumps(documents),
    }
    assert read("retrieval", attributes) == {
        "query": ASKED, "contexts": [{"text": "first", "id": "d0", "score": 0.5}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (json.dumps({"answer": SAID, "documents": ["d"]}), SAID),
        (json.dumps({"messages": [{"role": "ai", "content": SAID}]}), SAID),
        ("[an answer in brackets", "[an answer in brackets"),
        (json.dumps({"score": 1}), None),
    ],
)
def test_answer_of_a_flow_may_be_within_json(said, answer):
    attributes = {"openinference.span.kind": "CHAIN", "output.value": said}
    assert read("flow", attributes).get("output") == answer


@pytest.mark.parametrize(
    ("given", "contexts"),
    [
        ({"context": ["first", "second"], "question": ASKED}, ["first", "second"]),
        ({"contexts": ["first"], "question": ASKED}, ["first"]),
        ({"context": [{"role": "user", "content": "Hello"}], "question": ASKED}, []),
        ({"context": "checkout", "question": ASKED}, []),
    ],
)
def test_text_passages_in_flow_inputs_are_read(given, contexts):
    attributes = {"openinference.span.kind": "CHAIN", "input.value": json.dumps(given)}
    found = read("flow", attributes)
    assert found["query"] == ASKED
    assert [passage["text"] for passage in found.get("contexts", [])] == contexts


@pytest.mark.parametrize(
    "data",
    [
        {"query": ASKED},
        {"retriever": {"query": ASKED, "top_k": 5}, "prompt": {"style": "brief"}},
        {"prompt": {"style": "brief", "length": "short"}, "embedder": {"text": ASKED}},
    ],
)
def test_question_is_read_from_the_arguments_of_a_pipelines_components(data):
    attributes = {"openinference.span.kind": "CHAIN", "input.value": json.dumps({"data": data})}
    assert read("flow", attributes)["query"] == ASKED


@pytest.mark.parametrize(
    "said",
    [
        "<generator object>",
        "<generator object Bot.stream.<locals>.words at 0x7f1c2a3b4c50>",
        "<async_generator object stream at 0x7f1c2a3b4c50>",
        "<coroutine object ask at 0x7f1c2a3b4c50>",
        "<1536-dimensional vector>",
        "<llama_index.core.base.response.schema.StreamingResponse object at 0x7f1c2a3b4c50>",
        json.dumps({"response_gen": "<generator object>", "source_nodes": []}),
        json.dumps({"response": "<async_generator object stream at 0x7f1c2a3b4c50>"}),
        '{"response_gen": "<generator object stream at 0x7f>", "cut off',
    ],
)
def test_object_placeholder_is_not_an_answer(said):
    attributes = {"openinference.span.kind": "CHAIN", "output.value": said}
    assert "output" not in read("flow", attributes)
    spoken = {"llm.output_messages.0.message.content": said}
    if not said.startswith("{"):
        assert "output" not in read("model", spoken)


def test_answer_text_that_mentions_a_generator_object_is_kept():
    said = "It prints <generator object f at 0x7f>, because nothing has run yet."
    attributes = {"openinference.span.kind": "CHAIN", "output.value": said}
    assert read("flow", attributes)["output"] == said


def test_answer_in_several_parts_is_read():
    attributes = {
        "openinference.span.kind": "LLM",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.contents.0.message_content.type": "text",
        "llm.output_messages.0.message.contents.0.message_content.text": "Five",
        "llm.output_messages.0.message.contents.1.message_content.type": "text",
        "llm.output_messages.0.message.contents.1.message_content.text": "days.",
    }
    assert read("model", attributes) == {"output": "Five\ndays."}


def test_tool_is_read_in_both_conventions():
    call = {"name": "find", "arguments": {"k": 1}, "result": "found"}
    new = {
        "gen_ai.tool.name": "find", "gen_ai.tool.call.arguments": '{"k": 1}',
        "gen_ai.tool.call.result": "found",
    }  # fmt: skip
    openinference = {"tool.name": "find", "input.value": '{"k": 1}', "output.value": "found"}
    assert read("tool", new) == read("tool", openinference) == {"tool_calls": [call]}


def test_redacted_values_are_treated_as_missing():
    hidden = "__REDACTED__"
    attributes = {
        **OPENINFERENCE,
        "llm.input_messages.0.message.contents.0.message_content.text": hidden,
        "llm.output_messages.0.message.content": hidden,
        "input.value": hidden,
        "output.value": hidden,
    }
    assert read("model", attributes) == {"session_id": "s", "metadata": {"model": "m"}}
    documents = {"retrieval.documents.0.document.content": hidden}
    assert read("retrieval", documents) == {}
    messages = json.dumps([{"role": "user", "parts": [{"type": "text", "content": hidden}]}])
    assert read("model", {"gen_ai.input.messages": messages}) == {}
    assert read("model", {}, [("gen_ai.user.message", {"content": hidden})]) == {}


def test_release_and_environment_come_from_the_resource():
    old = {"service.version": "1.2", "deployment.environment": "production", "host.name": "h"}
    new = {"service.version": "1.2", "deployment.environment.name": "production"}
    expected = {"release": "1.2", "environment": "production"}
    assert read_resource(old) == read_resource(new) == expected


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.input.messages": "no json {"},
        {"gen_ai.input.messages": json.dumps([None, 1, "x", {"role": None}])},
        {"gen_ai.output.messages": json.dumps({"messages": 5})},
        {"gen_ai.output.messages": "[" * 100_000},
        {"llm.input_messages.0": "flat", "llm.input_messages.0.message.role": "user"},
        {"llm.input_messages." + "x." * 5_000: "deep"},
        {"retrieval.documents.0.document.content": 5, "input.value": ["a"]},
        {"output.value": 1.5, "input.value": None, "session.id": 7},
    ],
)
def test_malformed_attributes_are_ignored(attributes):
    for kind in ("model", "flow", "retrieval", "reranking", "tool"):
        assert isinstance(read(kind, attributes), dict)


def test_number_of_nested_attributes_is_bounded():
    attributes = {f"retrieval.documents.{n}.document.content": "x" for n in range(20_000)}
    assert len(read("retrieval", attributes)["contexts"]) == 5_000
