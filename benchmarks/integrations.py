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

from __future__ import annotations

import argparse
import asyncio
import http.server
import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

QUESTION = "How long does a refund take? " * 7
ANSWER = "Refunds are paid back within five days. " * 20
PASSAGE = "Refunds are paid back within five days. " * 25
#: Where OpenInference has no integration of its own, its column has OpenTelemetry's.
LIBRARIES = ("bare", "groundwatch", "groundwatch, 5 % sampled", "langfuse", "openinference")
_BLOCKS = 5
MESSAGES = [{"role": "user", "content": QUESTION}]


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
    if library == "groundwatch":
        from monitor.integrations.openai import watch_openai  # noqa: PLC0415

        watch_openai(client)
    elif library == "openinference":
        from openinference.instrumentation.openai import OpenAIInstrumentor  # noqa: PLC0415

        OpenAIInstrumentor().instrument()
    return lambda: client.chat.completions.create(model="m", messages=MESSAGES)


def anthropic(library: str) -> Callable[[], object] | None:
    """Return a message of Anthropic's; Langfuse has no integration of its own for it."""
    if library == "langfuse":
        return None
    from anthropic import Anthropic  # noqa: PLC0415

    body = {"id": "1", "type": "message", "role": "assistant", "model": "m",
            "content": [{"type": "text", "text": ANSWER}], "stop_reason": "end_turn",
            "usage": {"input_tokens": 50, "output_tokens": 100}}  # fmt: skip
    # Its newer versions use a successor of httpx, under another name.
    module = "httpx2" if importlib.util.find_spec("httpx2") else "httpx"
    client = Anthropic(api_key="k", http_client=_transport(body, module))
    if library == "groundwatch":
        from monitor.integrations.anthropic import watch_anthropic  # noqa: PLC0415

        watch_anthropic(client)
    elif library == "openinference":
        from openinference.instrumentation.anthropic import AnthropicInstrumentor  # noqa: PLC0415

        AnthropicInstrumentor().instrument()
    return lambda: client.messages.create(model="m", max_tokens=100, messages=MESSAGES)


def langchain(library: str) -> Callable[[], object]:
    """Return a chain of a retriever, a prompt and a model."""
    from langchain_core.documents import Document  # noqa: PLC0415
    from langchain_core.language_models import FakeListChatModel  # noqa: PLC0415
    from langchain_core.prompts import ChatPromptTemplate  # noqa: PLC0415
    from langchain_core.retrievers import BaseRetriever  # noqa: PLC0415
    from langchain_core.runnables import RunnablePassthrough  # noqa: PLC0415

    class Retriever(BaseRetriever):
        def _get_relevant_documents(self, *_: Any, **__: Any) -> list[Any]:
            return [Document(PASSAGE)] * 4

    prompt = ChatPromptTemplate.from_template("{contexts}\n{question}")
    model = FakeListChatModel(responses=[ANSWER])
    chain = {"contexts": Retriever(), "question": RunnablePassthrough()} | prompt | model
    handlers: list[Any] = []
    if library == "groundwatch":
        from monitor.integrations.langchain import InteractionHandler  # noqa: PLC0415

        handlers = [InteractionHandler()]
    elif library == "langfuse":
        from langfuse.langchain import CallbackHandler  # noqa: PLC0415

        handlers = [CallbackHandler()]
    elif library == "openinference":
        from openinference.instrumentation.langchain import LangChainInstrumentor  # noqa: PLC0415

        LangChainInstrumentor().instrument()
    return lambda: chain.invoke(QUESTION, config={"callbacks": handlers})


def llama_index(library: str) -> Callable[[], object] | None:
    """Return a query engine's answer; Langfuse uses OpenInference's instrumentation for it."""
    if library == "langfuse":
        return None
    from llama_index.core import get_response_synthesizer  # noqa: PLC0415
    from llama_index.core.llms import MockLLM  # noqa: PLC0415
    from llama_index.core.query_engine import RetrieverQueryEngine  # noqa: PLC0415
    from llama_index.core.retrievers import BaseRetriever  # noqa: PLC0415
    from llama_index.core.schema import NodeWithScore, TextNode  # noqa: PLC0415

    class Retriever(BaseRetriever):
        def _retrieve(self, _: Any) -> list[Any]:
            return [NodeWithScore(node=TextNode(text=PASSAGE), score=0.9)] * 4

    llm = MockLLM(max_tokens=100)
    engine = RetrieverQueryEngine(Retriever(), get_response_synthesizer(llm=llm))
    if library == "groundwatch":
        from monitor.integrations.llama_index import watch_llama_index  # noqa: PLC0415

        watch_llama_index()
    elif library == "openinference":
        from openinference.instrumentation.llama_index import (  # noqa: PLC0415
            LlamaIndexInstrumentor,
        )

        LlamaIndexInstrumentor().instrument()
    return lambda: engine.query(QUESTION)


def litellm(library: str) -> Callable[[], object]:
    """Return a completion of LiteLLM's, which it makes up itself."""
    import litellm as module  # noqa: PLC0415

    if library == "groundwatch":
        from monitor.integrations.litellm import watch_litellm  # noqa: PLC0415

        watch_litellm(module)
    elif library == "langfuse":
        module.callbacks = ["langfuse_otel"]
    elif library == "openinference":
        from openinference.instrumentation.litellm import LiteLLMInstrumentor  # noqa: PLC0415

        LiteLLMInstrumentor().instrument()
    return lambda: module.completion("openai/m", MESSAGES, api_key="k", mock_response=ANSWER)


def asgi(library: str) -> Callable[[], object] | None:
    """Return a request to an ASGI app; the one that is watched says what was asked and answered."""
    if library == "langfuse":
        return None
    watched = library == "groundwatch"
    from monitor.integrations.asgi import InteractionMiddleware, current  # noqa: PLC0415

    async def app(_: Any, __: Any, send: Any) -> None:
        if watched:
            it = current()
            it.query, it.contexts, it.output = QUESTION, [PASSAGE], ANSWER
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": ANSWER.encode()})

    wrapped: Any = InteractionMiddleware(app) if watched else app
    if library == "openinference":
        from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware  # noqa: PLC0415

        wrapped = OpenTelemetryMiddleware(app)
    scope = {"type": "http", "method": "POST", "path": "/ask", "query_string": b"",
             "scheme": "http", "server": ("x", 80), "client": ("y", 1), "http_version": "1.1",
             "headers": [(b"host", b"x"), (b"x-session-id", b"s")]}  # fmt: skip
    loop = asyncio.new_event_loop()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_: Any) -> None:
        pass

    return lambda: loop.run_until_complete(wrapped({**scope}, receive, send))


def wsgi(library: str) -> Callable[[], object] | None:
    """Return a request to a WSGI app; the one that is watched says what was asked and answered."""
    if library == "langfuse":
        return None
    watched = library == "groundwatch"
    from monitor.integrations.wsgi import InteractionMiddleware, current  # noqa: PLC0415

    def app(_: Any, start_response: Any) -> list[bytes]:
        if watched:
            it = current()
            it.query, it.contexts, it.output = QUESTION, [PASSAGE], ANSWER
        start_response("200 OK", [])
        return [ANSWER.encode()]

    wrapped: Any = InteractionMiddleware(app) if watched else app
    if library == "openinference":
        from opentelemetry.instrumentation.wsgi import OpenTelemetryMiddleware  # noqa: PLC0415

        wrapped = OpenTelemetryMiddleware(app)
    asked: dict[str, Any] = {"HTTP_X_SESSION_ID": "s"}
    setup_testing_defaults(asked)

    def call() -> None:
        body = wrapped({**asked}, lambda *_: None)
        for _ in body:
            pass
        getattr(body, "close", lambda: None)()

    return call


def otel(library: str) -> Callable[[], object] | None:
    """Return a trace of a retrieval and a model; bare is one that nothing processes."""
    if library == "langfuse":
        return None
    from opentelemetry import trace  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

    provider: Any = trace.get_tracer_provider() if library == "openinference" else TracerProvider()
    if library == "groundwatch":
        from monitor.integrations.otel import InteractionSpanProcessor  # noqa: PLC0415

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


CALLS: dict[str, Callable[[str], Callable[[], object] | None]] = {
    "OpenAI client": openai,
    "Anthropic client": anthropic,
    "LangChain": langchain,
    "LlamaIndex": llama_index,
    "LiteLLM": litellm,
    "ASGI request": asgi,
    "WSGI request": wsgi,
    "OpenTelemetry trace": otel,
}


def probe(kind: str, library: str, calls: int) -> None:
    """Make the calls in this process, deliver, and print the CPU of one, in µs."""
    name = library.partition(",")[0]
    provider: Any = None
    if name == "openinference":
        from opentelemetry import trace  # noqa: PLC0415
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
    call = CALLS[kind](name)
    if call is None:
        return

    def deliver() -> None:
        if name == "groundwatch":
            import monitor  # noqa: PLC0415

            monitor.flush(30.0)
        elif name == "langfuse":
            from langfuse import get_client  # noqa: PLC0415

            get_client().flush()
        elif provider is not None:
            provider.force_flush()

    for _ in range(20):
        call()
    deliver()
    blocks_us = []
    for _ in range(_BLOCKS):
        began_s = time.process_time()
        for _ in range(calls):
            call()
        deliver()
        blocks_us.append(1e6 * (time.process_time() - began_s) / calls)
    sys.stdout.write(f"{statistics.median(blocks_us)}\n")


class _TakesAll(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Take whatever it is."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def main() -> None:
    """Run everything in turn and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", choices=CALLS, default=[*CALLS], metavar="KIND")
    parser.add_argument("--probe", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        probe(*options.probe, options.calls)
        return
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from support.redis_server import RedisServer  # noqa: PLC0415

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _TakesAll)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    found: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, RedisServer(Path(folder), durable=False) as redis:
        for _ in range(options.rounds):
            for kind in options.kinds:
                for library in LIBRARIES:
                    env = os.environ | {  # noqa: TID251  # of the processes below
                        "GROUNDWATCH_REDIS_URL": redis.url, "GROUNDWATCH_QUEUE_LIMIT": "1000000",
                        "GROUNDWATCH_SAMPLE_RATE": "0.05" if "5 %" in library else "1",
                        "LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk",
                        "LANGFUSE_HOST": url, "OTEL_EXPORTER_OTLP_ENDPOINT": url,
                        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                    }  # fmt: skip
                    command = [sys.executable, __file__, "--calls", str(options.calls)]
                    done = subprocess.run(  # noqa: S603  # our own file
                        [*command, "--probe", kind, library],
                        env=env, capture_output=True, text=True, check=False,
                    )  # fmt: skip
                    if done.returncode == 0 and done.stdout.strip():
                        figure = float(done.stdout.split()[-1])
                        found.setdefault((kind, library), []).append(figure)
    print(f"| µs of CPU a call | bare call | {' | '.join(LIBRARIES[1:])} |")
    print("|---" * (len(LIBRARIES) + 1) + "|")
    for kind in options.kinds:
        medians = {lib: statistics.median(found[kind, lib]) for lib in LIBRARIES
                   if (kind, lib) in found}  # fmt: skip
        bare = medians.pop("bare", 0.0)
        cells = [f"{medians[lib] - bare:+.0f}" if lib in medians else "–" for lib in LIBRARIES[1:]]
        print(f"| {kind} | {bare:.0f} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
