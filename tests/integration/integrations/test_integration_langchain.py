"""LangChain's runs behave as before; each root run with an answer is recorded."""

import asyncio

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool
from opentelemetry.sdk.trace import TracerProvider

from monitor.integrations.langchain import InteractionHandler


class Shelf(BaseRetriever):
    texts: tuple[str, ...] = ("Refunds take five days.", "Cards only.")
    inner: BaseRetriever | None = None

    def _get_relevant_documents(self, query, *, run_manager: CallbackManagerForRetrieverRun):
        if self.inner is not None:
            return self.inner.invoke(query, config={"callbacks": run_manager.get_child()})[:1]
        return [
            Document(page_content=text, id=str(n), metadata={"source": f"{n}.pdf", "page": n})
            for n, text in enumerate(self.texts)
        ]


@pytest.fixture
def handler(hook):
    return InteractionHandler(hook=hook, tags={"lang": "en"})


def rag(retriever=None, model=None):
    """The usual chain: a question in, a text out."""
    prompt = ChatPromptTemplate.from_template("{context}\n{question}")
    return (
        {"context": retriever or Shelf(), "question": RunnablePassthrough()}
        | prompt
        | (model or FakeListChatModel(responses=["Five days."]))
        | StrOutputParser()
    )


def with_handler(handler, **more):
    return {"callbacks": [handler], **more}


def parts(interaction):
    contexts = [context.text for context in interaction.contexts]
    return interaction.query, contexts, interaction.output


RECORDED = ("How long?", ["Refunds take five days.", "Cards only."], "Five days.")


def test_chain_is_recorded_with_its_documents(handler, recorded):
    assert rag().invoke("How long?", config=with_handler(handler)) == "Five days."
    [it] = recorded()
    assert parts(it) == RECORDED
    assert ([context.id for context in it.contexts], it.tags) == (["0", "1"], {"lang": "en"})
    assert [c.model_extra for c in it.contexts] == [{"source": "0.pdf"}, {"source": "1.pdf"}]


def test_async_chain_is_recorded(handler, recorded):
    assert asyncio.run(rag().ainvoke("How long?", config=with_handler(handler))) == "Five days."
    assert [parts(it) for it in recorded()] == [RECORDED]


def test_streamed_chain_is_recorded_when_it_has_ended(handler, hook, recorded):
    stream = rag().stream("How long?", config=with_handler(handler))
    assert next(stream) == "F"
    assert hook.stats()["sampled"] == 0
    assert "".join(stream) == "ive days."
    assert [parts(it) for it in recorded()] == [RECORDED]


def test_abandoned_stream_leaves_no_state(handler, recorded):
    stream = rag().stream("How long?", config=with_handler(handler))
    next(stream)
    stream.close()
    assert (recorded(), len(handler._runs)) == ([], 0)


def test_concurrent_runs_are_recorded_separately(handler, recorded):
    questions = [f"How long, {n}?" for n in range(8)]
    rag().batch(questions, config=with_handler(handler))
    assert sorted(parts(it)[0] for it in recorded()) == questions
    assert all(len(it.contexts) == 2 for it in recorded())


def test_outermost_of_nested_retrievers_gives_the_passages(handler, recorded):
    rag(Shelf(inner=Shelf())).invoke("How long?", config=with_handler(handler))
    assert parts(recorded()[0])[1] == ["Refunds take five days."]


def test_chat_model_without_a_chain_is_recorded(handler, recorded):
    model = FakeListChatModel(responses=["Five days."])
    config = with_handler(handler, metadata={"session_id": "s", "user_id": "u"})
    before = [("system", "Be brief."), ("user", "Before?"), ("assistant", "Yes.")]
    model.invoke([*before, ("user", "How long?")], config=config)
    [it] = recorded()
    assert [turn.content for turn in it.history] == ["Before?", "Yes."]
    assert parts(it) == ("How long?", [], "Five days.")
    assert (it.session_id, it.user_id) == ("s", "u")


@pytest.mark.parametrize(
    "turns", [[("human", "Before?"), ("ai", "Yes.")], [("Before?", "Yes.")]], ids=["roles", "pairs"]
)
def test_earlier_turns_in_pairs_are_recorded(handler, recorded, turns):
    inputs = {"question": "How long?", "chat_history": turns}
    RunnableLambda(lambda _: "Five days.").invoke(inputs, config=with_handler(handler))
    [it] = recorded()
    said = [(turn.role, turn.content) for turn in it.history]
    assert (said, it.query) == ([("user", "Before?"), ("assistant", "Yes.")], "How long?")


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ({"input": "How long?"}, {"answer": "Five days.", "context": []}),
        ({"messages": [HumanMessage("How long?")]},
         {"messages": [HumanMessage("How long?"), AIMessage("Five days.")]}),
        ({"messages": [{"role": "user", "content": "How long?"}]},
         AIMessage([{"type": "text", "text": "Five days."}])),
    ],
)  # fmt: skip
def test_question_and_answer_are_found_in_the_usual_shapes(handler, recorded, inputs, outputs):
    assert RunnableLambda(lambda _: outputs).invoke(inputs, config=with_handler(handler)) is outputs
    assert parts(recorded()[0]) == ("How long?", [], "Five days.")


def test_tools_are_recorded(handler, recorded):
    @tool
    def find(k: int) -> str:
        """Find things."""
        return f"found {k}"

    def agent(question):
        find.invoke({"k": 1})
        return "Five days."

    RunnableLambda(agent).invoke("How long?", config=with_handler(handler))
    [call] = recorded()[0].tool_calls
    assert (call.name, call.arguments, call.result) == ("find", {"k": 1}, "found 1")


def test_exception_is_raised_and_leaves_no_record_or_state(handler, recorded):
    def fails(question):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        (RunnablePassthrough() | fails).invoke("q", config=with_handler(handler))
    assert recorded() == []
    assert len(handler._runs) == 0


def test_finished_run_leaves_no_state(handler):
    rag().invoke("How long?", config=with_handler(handler))
    assert len(handler._runs) == 0


def test_retriever_alone_is_not_recorded(handler, hook):
    Shelf().invoke("How long?", config=with_handler(handler))
    assert hook.stats()["seen"] == 0


def test_sampling_is_decided_once_for_an_unsampled_run(unsampled):
    handler = InteractionHandler(hook=unsampled)
    rag().invoke("How long?", config=with_handler(handler))
    assert (unsampled.asked, unsampled.taken, len(handler._runs)) == (1, [], 0)


def test_internal_error_does_not_reach_the_app(broken, caplog):
    handler = InteractionHandler(hook=broken)
    assert rag().invoke("How long?", config=with_handler(handler)) == "Five days."


def test_model_and_active_trace_id_are_recorded(handler, recorded):
    message = AIMessage("Five days.", response_metadata={"model_name": "m-1"})
    model = GenericFakeChatModel(messages=iter([message]))
    with TracerProvider().get_tracer("t").start_as_current_span("POST /ask") as span:
        rag(model=model).invoke("How long?", config=with_handler(handler))
    [it] = recorded()
    assert it.metadata == {"model": "m-1"}
    assert it.trace_id == format(span.get_span_context().trace_id, "032x")
