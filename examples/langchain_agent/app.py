"""
A LangChain pipeline: a retriever, a prompt and a model, recorded by one callback.

Run it:    python app.py 'How long does a refund take?'
"""

import sys

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough

import groundwatch
from groundwatch.integrations.langchain import InteractionHandler


class Shelf(BaseRetriever):
    """Two passages, both always found; put your vector store here."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [
            Document(page_content="A refund takes five working days.", id="refunds"),
            Document(page_content="Delivery is free above 40 euros.", id="delivery"),
        ]


def make_chain() -> Runnable[str, str]:
    """Return the pipeline; the fake model stands in for ChatOpenAI and needs no key."""
    prompt = ChatPromptTemplate.from_template("Answer from: {passages}\n\n{question}")
    model = FakeListChatModel(responses=["A refund takes five working days."])
    given = {"passages": Shelf(), "question": RunnablePassthrough()}
    return given | prompt | model | StrOutputParser()


if __name__ == "__main__":
    groundwatch.init(app="refund-agent")
    question = " ".join(sys.argv[1:]) or "How long does a refund take?"
    # Give the handler to every call, or bind it once with `chain.with_config(callbacks=[...])`.
    print(make_chain().invoke(question, config={"callbacks": [InteractionHandler()]}))
    groundwatch.flush(timeout=5)
