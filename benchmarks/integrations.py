"""
What each integration costs a mocked call, beside Langfuse's, OpenInference's and OpenTelemetry's.

Run: python -m pip install -e .[server] openai anthropic langchain-core llama-index-core litellm
langfuse opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
openinference-instrumentation-{openai,anthropic,langchain,llama-index,litellm}
opentelemetry-instrumentation-{asgi,wsgi}
and then: python benchmarks/integrations.py [--calls 200] [--rounds 5]

Every kind of call is made in processes of its own, one with nothing, one a library, in turn for so
many rounds. Everything is recorded and delivered, ours to a real Redis, theirs to a server on
loopback that takes all. The figure is CPU of all threads a call above the bare call's, in µs: of
each process the median of five blocks of calls, and of these the median of the rounds. What is not
installed is left out.
"""

import asyncio
import importlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from wsgiref.util import setup_testing_defaults

from probe import Found, measure, print_medians, run

QUESTION = "How long does a refund take? " * 7
ANSWER = "Refunds are paid back within five days. " * 20
PASSAGE = "Refunds are paid back within five days. " * 25
#: Where OpenInference has no integration of its own, its column has OpenTelemetry's.
LIBRARIES = ("bare", "groundwatch", "groundwatch, 5 % sampled", "langfuse", "openinference")
_BLOCKS = 5
MESSAGES = [{"role": "user", "content": QUESTION}]


def watch(library: str, name: str, theirs: str, *watched: object) -> None:
    """Attach our integration, or OpenInference's, whose class is *theirs*."""
    if library == "groundwatch":
        resolve_name(f"monitor.integrations.{name}:watch_{name}")(*watched)
    elif library == "openinference":
        resolve_name(f"openinference.instrumentation.{name}:{theirs}Instrumentor")().instrument()


def _transport(body: dict[str, Any], module: str = "httpx") -> Any:
    httpx: Any = importlib.import_module(module)
    return httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, json=body)))


def openai(library: str) -> Callable[[], object]:
    """Return a chat completion."""
    module = importlib.import_module("langfuse.openai" if library == "langfuse" else "openai")
    choice = {"index": 0, "finish_reason": "stop",
              "message": {"role": "assistant", "content": ANSWER}}  # fmt: skip
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice],
            "usage": {"prompt_tokens": 50, "completion_tokens": 100}}  # fmt: skip
    client = module.OpenAI(api_key="k", base_url="http://x/v1", http_client=_transport(body))
    watch(library, "openai", "OpenAI", client)
    return lambda: client.chat.completions.create(model="m", messages=MESSAGES)


def anthropic(library: str) -> Callable[[], object]:
    """Return a message of Anthropic's."""
    from anthropic import Anthropic

    body = {"id": "1", "type": "message", "role": "assistant", "model": "m",
            "content": [{"type": "text", "text": ANSWER}], "stop_reason": "end_turn",
            "usage": {"input_tokens": 50, "output_tokens": 100}}  # fmt: skip
    # Its newer versions use a successor of httpx, under another name.
    module = "httpx2" if find_spec("httpx2") else "httpx"
    client = Anthropic(api_key="k", http_client=_transport(body, module))
    watch(library, "anthropic", "Anthropic", client)
    return lambda: client.messages.create(model="m", max_tokens=100, messages=MESSAGES)


def langchain(library: str) -> Callable[[], object]:
    """Return a chain of a retriever, a prompt and a model."""
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnablePassthrough

    class Retriever(BaseRetriever):
        def _get_relevant_documents(self, *_: Any, **__: Any) -> list[Any]:
            return [Document(PASSAGE)] * 4

    prompt = ChatPromptTemplate.from_template("{contexts}\n{question}")
    model = FakeListChatModel(responses=[ANSWER])
    chain = {"contexts": Retriever(), "question": RunnablePassthrough()} | prompt | model
    callbacks = []
    if library == "groundwatch":
        callbacks.append(resolve_name("monitor.integrations.langchain:InteractionHandler")())
    elif library == "langfuse":
        callbacks.append(resolve_name("langfuse.langchain:CallbackHandler")())
    else:
        watch(library, "langchain", "LangChain")
    return lambda: chain.invoke(QUESTION, config={"callbacks": callbacks})


def llama_index(library: str) -> Callable[[], object]:
    """Return a query engine's answer."""
    from llama_index.core import get_response_synthesizer
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    class Retriever(BaseRetriever):
        def _retrieve(self, _: Any) -> list[Any]:
            return [NodeWithScore(node=TextNode(text=PASSAGE), score=0.9)] * 4

    llm = MockLLM(max_tokens=100)
    engine = RetrieverQueryEngine(Retriever(), get_response_synthesizer(llm=llm))
    watch(library, "llama_index", "LlamaIndex")
    return lambda: engine.query(QUESTION)


def litellm(library: str) -> Callable[[], object]:
    """Return a completion of LiteLLM's, which it makes up itself."""
    import litellm as module

    if library == "langfuse":
        module.callbacks = ["langfuse_otel"]
    watch(library, "litellm", "LiteLLM", module)
    return lambda: module.completion("openai/m", MESSAGES, api_key="k", mock_response=ANSWER)


def _middleware(library: str, kind: str) -> tuple[Callable[[Any], Any], Callable[[], object]]:
    """Return what wraps an app, and what the app calls to say what was asked and answered."""
    if library == "groundwatch":
        ours = importlib.import_module(f"monitor.integrations.{kind}")

        def say() -> None:
            it = ours.current()
            it.query, it.contexts, it.output = QUESTION, [PASSAGE], ANSWER

        return ours.InteractionMiddleware, say
    theirs = f"opentelemetry.instrumentation.{kind}:OpenTelemetryMiddleware"
    wrap = resolve_name(theirs) if library == "openinference" else lambda app: app
    return wrap, lambda: None


def asgi(library: str) -> Callable[[], object]:
    """Return a request to an ASGI app."""
    wrap, say = _middleware(library, "asgi")

    async def app(_: Any, __: Any, send: Any) -> None:
        say()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": ANSWER.encode()})

    async def nothing(*_: Any) -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    wrapped, loop = wrap(app), asyncio.new_event_loop()
    scope = {"type": "http", "method": "POST", "path": "/ask", "query_string": b"",
             "scheme": "http", "server": ("x", 80), "client": ("y", 1), "http_version": "1.1",
             "headers": [(b"host", b"x"), (b"x-session-id", b"s")]}  # fmt: skip
    return lambda: loop.run_until_complete(wrapped({**scope}, nothing, nothing))


def wsgi(library: str) -> Callable[[], object]:
    """Return a request to a WSGI app."""
    wrap, say = _middleware(library, "wsgi")

    def app(_: Any, start_response: Any) -> list[bytes]:
        say()
        start_response("200 OK", [])
        return [ANSWER.encode()]

    wrapped = wrap(app)
    asked: dict[str, Any] = {"HTTP_X_SESSION_ID": "s"}
    setup_testing_defaults(asked)

    def call() -> None:
        body = wrapped({**asked}, lambda *_: None)
        list(body)
        getattr(body, "close", list)()

    return call


def otel(library: str) -> Callable[[], object]:
    """Return a trace of a retrieval and a model; bare is one that nothing processes."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    provider: Any = trace.get_tracer_provider() if library == "openinference" else TracerProvider()
    if library == "groundwatch":
        from monitor.integrations.otel import InteractionSpanProcessor

        provider.add_span_processor(InteractionSpanProcessor())
    tracer = provider.get_tracer("app")
    documents = json.dumps([{"content": PASSAGE}] * 4)
    found = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": documents}
    asked = json.dumps([{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}])
    said = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}])
    answered = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                "gen_ai.input.messages": asked, "gen_ai.output.messages": said}  # fmt: skip

    def call() -> None:
        with tracer.start_as_current_span("ask"):
            tracer.start_span("retrieve", attributes=found).end()
            tracer.start_span("chat m", attributes=answered).end()

    return call


CALLS: dict[str, Callable[[str], Callable[[], object]]] = {
    "OpenAI client": openai,
    "Anthropic client": anthropic,
    "LangChain": langchain,
    "LlamaIndex": llama_index,
    "LiteLLM": litellm,
    "ASGI request": asgi,
    "WSGI request": wsgi,
    "OpenTelemetry trace": otel,
}
#: What Langfuse has an integration of its own for; for LlamaIndex it uses OpenInference's.
LANGFUSE = ("OpenAI client", "LangChain", "LiteLLM")


def probe(library: str, kind: str, calls: str) -> dict[str, float]:
    """Make the calls in this process, deliver, and return the CPU of one, in µs."""
    name = library.partition(",")[0]
    provider: Any = None
    if name == "openinference":
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
    call = CALLS[kind](name)

    def deliver() -> None:
        if name == "groundwatch":
            resolve_name("monitor:flush")(30.0)
        elif name == "langfuse":
            resolve_name("langfuse:get_client")().flush()
        elif provider is not None:
            provider.force_flush()

    for _ in range(20):
        call()
    deliver()
    blocks_s = []
    for _ in range(_BLOCKS):
        began_s = time.process_time()
        for _ in range(int(calls)):
            call()
        deliver()
        blocks_s.append(time.process_time() - began_s)
    return {kind: 1e6 * statistics.median(blocks_s) / int(calls)}


def main(*, calls: int = 200, rounds: int = 5, only: str = "") -> None:
    """Run everything in turn and print the table; with *only*, of kinds that have it in a name."""
    from common import Sink

    from support.redis_server import RedisServer

    found: Found = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        RedisServer(Path(folder), durable=False) as redis,
        Sink() as http,
    ):
        for _, kind, library in product(range(rounds), CALLS, LIBRARIES):
            if only not in kind or (library == "langfuse" and kind not in LANGFUSE):
                continue
            measure(found, library, kind, str(calls), env={
                "GROUNDWATCH_REDIS_URL": redis.url, "GROUNDWATCH_QUEUE_LIMIT": "1000000",
                "GROUNDWATCH_SAMPLE_RATE": "0.05" if "5 %" in library else "1",
                "LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk",
                "LANGFUSE_HOST": http.url, "OTEL_EXPORTER_OTLP_ENDPOINT": http.url,
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            })  # fmt: skip
    print("µs of CPU a call")
    print_medians(found, LIBRARIES[0], LIBRARIES[1:])


run(probe, main)
