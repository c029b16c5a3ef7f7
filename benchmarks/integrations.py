"""
What each integration costs a mocked call: python benchmarks/integrations.py [--rounds 20].

One of each way to integrate: Anthropic's client and LiteLLM are wrapped as OpenAI's client is, and
WSGI apps as ASGI apps are. Each kind of call is made without an integration, with one and no call
sampled, and with all calls recorded and delivered to a real Redis, in turn for so many rounds. The
figure is CPU of the calling thread, in µs, of the cheapest call, which a busy machine changes
least; of the others by how much it is above the bare call. Beside it what the hook's own thread
uses for a call that is recorded, the median of the rounds.
"""

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from common import print_head, print_row, script

from monitor import Hook
from support.redis_server import RedisServer

QUESTION = "How long does a refund take? " * 7
ANSWER = "Refunds are paid back within five days. " * 20
PASSAGE = "Refunds are paid back within five days. " * 25
_BLOCK = 20
MESSAGES = [{"role": "user", "content": QUESTION}]

Call = Callable[[], object]


def openai(hook: Hook | None, _: ExitStack) -> Call:
    """Return a chat completion."""
    import httpx
    from openai import OpenAI

    from monitor.integrations.openai import watch_openai

    choice = {"index": 0, "finish_reason": "stop",
              "message": {"role": "assistant", "content": ANSWER}}  # fmt: skip
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice],
            "usage": {"prompt_tokens": 50, "completion_tokens": 100}}  # fmt: skip
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=body))
    http = httpx.Client(transport=transport)
    client = OpenAI(api_key="k", base_url="http://x/v1", http_client=http)
    if hook:
        watch_openai(client, hook=hook)
    return lambda: client.chat.completions.create(model="m", messages=MESSAGES)


def langchain(hook: Hook | None, _: ExitStack) -> Call:
    """Return a chain of a retriever, a prompt and a model."""
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnablePassthrough

    from monitor.integrations.langchain import InteractionHandler

    class Retriever(BaseRetriever):
        def _get_relevant_documents(self, *_: Any, **__: Any) -> list[Any]:
            return [Document(PASSAGE)] * 4

    prompt = ChatPromptTemplate.from_template("{contexts}\n{question}")
    model = FakeListChatModel(responses=[ANSWER])
    chain = {"contexts": Retriever(), "question": RunnablePassthrough()} | prompt | model
    callbacks = [InteractionHandler(hook=hook)] if hook else []
    return lambda: chain.invoke(QUESTION, config={"callbacks": callbacks})


def llama_index(hook: Hook | None, undo: ExitStack) -> Call:
    """Return a query engine's answer."""
    from llama_index.core import get_response_synthesizer
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    from monitor.integrations.llama_index import watch_llama_index

    class Retriever(BaseRetriever):
        def _retrieve(self, _: Any) -> list[Any]:
            return [NodeWithScore(node=TextNode(text=PASSAGE), score=0.9)] * 4

    llm = MockLLM(max_tokens=100)
    engine = RetrieverQueryEngine(Retriever(), get_response_synthesizer(llm=llm))
    if hook:
        undo.callback(watch_llama_index(hook=hook))
    return lambda: engine.query(QUESTION)


def asgi(hook: Hook | None, undo: ExitStack) -> Call:
    """Return a request to an ASGI app."""
    from monitor.integrations.asgi import InteractionMiddleware, current

    async def app(_: Any, __: Any, send: Any) -> None:
        it = current()
        it.query, it.contexts, it.output = QUESTION, [PASSAGE], ANSWER
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": ANSWER.encode()})

    async def nothing(*_: Any) -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    wrapped: Any = InteractionMiddleware(app, hook=hook) if hook else app
    loop = undo.enter_context(closing(asyncio.new_event_loop()))
    scope = {"type": "http", "method": "POST", "path": "/ask", "query_string": b"",
             "scheme": "http", "server": ("x", 80), "client": ("y", 1), "http_version": "1.1",
             "headers": [(b"host", b"x"), (b"x-session-id", b"s")]}  # fmt: skip
    return lambda: loop.run_until_complete(wrapped({**scope}, nothing, nothing))


def opentelemetry(hook: Hook | None, _: ExitStack) -> Call:
    """Return a trace of a retrieval and a model; bare is one that nothing processes."""
    from opentelemetry.sdk.trace import TracerProvider

    from monitor.integrations.otel import InteractionSpanProcessor

    provider = TracerProvider()
    if hook:
        provider.add_span_processor(InteractionSpanProcessor(hook=hook))
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


KINDS = {
    "OpenAI client": openai, "LangChain": langchain, "LlamaIndex": llama_index,
    "ASGI request": asgi, "OpenTelemetry trace": opentelemetry,
}  # fmt: skip


def cost_us(make: Callable[[Hook | None, ExitStack], Call], hook: Hook | None) -> tuple[float, ...]:
    """Return the CPU of the cheapest of a few calls, and what other threads use for a call."""
    taken_s = []
    with ExitStack() as undo:
        call = make(hook, undo)
        call()
        others_s = time.thread_time() - time.process_time()
        for _ in range(_BLOCK):
            began_s = time.thread_time()
            call()
            taken_s.append(time.thread_time() - began_s)
        if hook:
            hook.flush(30.0)
        others_s += time.process_time() - time.thread_time()
    return 1e6 * min(taken_s), 1e6 * others_s / _BLOCK


@script
def main(*, rounds: int = 20) -> None:
    """Print the table."""
    with (
        tempfile.TemporaryDirectory() as folder,
        RedisServer(Path(folder), durable=False) as redis,
    ):
        hooks = [Hook(app="benchmark", sample_rate=rate, redis_url=redis.url, queue_limit=1_000_000)
                 for rate in (0.0, 1.0)]  # fmt: skip
        print_head("µs of CPU a call", "bare", "not sampled", "recorded", "hook's own thread then")
        for name, make in KINDS.items():
            turns = [[cost_us(make, hook) for hook in (None, *hooks)] for _ in range(rounds)]
            bare, *others = (min(taken for taken, _ in arm) for arm in zip(*turns, strict=True))
            thread = statistics.median(turn[-1][1] for turn in turns)
            above = (f"{each - bare:+,.0f}" for each in others)
            print_row(name, f"{bare:,.0f}", *above, f"{thread:,.0f}")
        for hook in hooks:
            hook.close(1)
