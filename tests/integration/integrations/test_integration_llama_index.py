"""LlamaIndex's engines answer as before; what they answer is recorded."""

import asyncio

import pytest
from llama_index.core import Document, MockEmbedding, Settings, VectorStoreIndex
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.memory import ChatMemoryBuffer

from monitor.integrations.llama_index import watch_llama_index
from support.waiting import wait_until

WORDS = ["Five", " days", "."]


class Words(CustomLLM):
    """Answers the same, word by word if asked to."""

    fails: bool = False

    @property
    def metadata(self):
        return LLMMetadata()

    @llm_completion_callback()
    def complete(self, prompt, formatted=False, **_):
        if self.fails:
            raise KeyError("mine")
        return CompletionResponse(text="".join(WORDS))

    @llm_completion_callback()
    def stream_complete(self, prompt, formatted=False, **_):
        def parts():
            for n, word in enumerate(WORDS, 1):
                yield CompletionResponse(text="".join(WORDS[:n]), delta=word)

        return parts()


@pytest.fixture(scope="module")
def index():
    Settings.llm = Words()
    documents = [
        Document(text="Refunds take five days.", metadata={"source": "policy", "tenant": "x"}),
        Document(text="Cards only."),
    ]
    return VectorStoreIndex.from_documents(documents, embed_model=MockEmbedding(embed_dim=4))


@pytest.fixture(autouse=True)
def watching(request):
    name = "unsampled" if "unsampled" in request.fixturenames else "hook"
    stop = watch_llama_index(hook=request.getfixturevalue(name), tags={"lang": "en"})
    yield
    stop()


def chat_engine(index, mode="context"):
    # With a memory of its own kind, because the usual one leaves a database open.
    return index.as_chat_engine(chat_mode=mode, memory=ChatMemoryBuffer.from_defaults())


def parts(interaction):
    contexts = sorted(context.text for context in interaction.contexts)
    return interaction.query, contexts, interaction.output


RECORDED = ("How long?", ["Cards only.", "Refunds take five days."], "Five days.")


def test_query_is_recorded_with_its_source_nodes(index, recorded):
    assert str(index.as_query_engine().query("How long?")) == "Five days."
    [it] = recorded()
    assert parts(it) == RECORDED
    assert it.tags == {"lang": "en"}
    assert {"source": "policy"} in [context.model_extra for context in it.contexts]
    assert all(context.id and context.score is not None for context in it.contexts)


def test_async_query_is_recorded(index, recorded):
    asyncio.run(index.as_query_engine().aquery("How long?"))
    assert [parts(it) for it in recorded()] == [RECORDED]


def test_streamed_query_is_recorded_when_it_has_been_read(index, hook, recorded):
    response = index.as_query_engine(streaming=True).query("How long?")
    assert next(response.response_gen) == "Five"
    assert hook.stats()["sampled"] == 0
    assert list(response.response_gen) == WORDS[1:]
    assert [parts(it) for it in recorded()] == [RECORDED]


def test_async_streamed_query_is_recorded(index, recorded):
    async def use():
        response = await index.as_query_engine(streaming=True).aquery("How long?")
        return [part async for part in response.response_gen]

    assert asyncio.run(use()) == WORDS
    assert [parts(it) for it in recorded()] == [RECORDED]


def test_abandoned_streamed_query_is_incomplete(index, recorded):
    response = index.as_query_engine(streaming=True).query("How long?")
    next(response.response_gen)
    del response
    [it] = recorded()
    assert (it.output, it.metadata) == ("Five", {"incomplete": True})


def test_chat_is_recorded(index, recorded):
    engine = chat_engine(index)
    engine.chat("How long?")
    asyncio.run(engine.achat("How long?"))
    first, second = recorded()
    assert [parts(first), parts(second)] == [RECORDED] * 2
    assert [turn.content for turn in (*first.history, *second.history)] == [
        "How long?",
        "Five days.",
    ]


def test_streamed_chat_is_recorded(index, hook, recorded):
    async def use():
        engine = chat_engine(index)
        response = await engine.astream_chat("How long?")
        return "".join([part async for part in response.async_response_gen()])

    response = chat_engine(index).stream_chat("How long?")
    assert "".join(response.response_gen) == "Five days."
    assert asyncio.run(use()) == "Five days."
    # A thread of the library tells of the end.
    wait_until(lambda: hook.stats()["sampled"] >= 2)
    assert [parts(it) for it in recorded()] == [RECORDED] * 2


def test_nested_query_engine_is_one_interaction(index, recorded):
    engine = chat_engine(index, "condense_question")
    engine.chat("How long?")
    engine.chat("How long?")
    assert len(recorded()) == 2


def test_exception_is_raised_and_nothing_is_recorded(index, recorded):
    with pytest.raises(KeyError, match="mine"):
        index.as_query_engine(llm=Words(fails=True)).query("How long?")
    assert recorded() == []


def test_retriever_alone_is_not_recorded(index, hook):
    index.as_retriever().retrieve("How long?")
    assert hook.stats()["seen"] == 0


def test_sampling_is_decided_once_for_an_unsampled_query(index, unsampled):
    index.as_query_engine().query("How long?")
    list(index.as_query_engine(streaming=True).query("How long?").response_gen)
    assert (unsampled.asked, unsampled.taken) == (2, [])


def test_internal_error_does_not_reach_the_app(index, unsampled, broken):
    stop = watch_llama_index(hook=broken)
    assert str(index.as_query_engine().query("How long?")) == "Five days."
    stop()


def test_instrumentation_can_be_removed(index, recorded):
    before = len(get_dispatcher().span_handlers), len(get_dispatcher().event_handlers)
    watch_llama_index()()
    assert (len(get_dispatcher().span_handlers), len(get_dispatcher().event_handlers)) == before
