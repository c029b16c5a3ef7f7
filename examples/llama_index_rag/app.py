"""
A LlamaIndex query engine, watched by one line.

Run it:    python app.py 'How long does a refund take?'
"""

import sys

from llama_index.core import SummaryIndex
from llama_index.core.llms import CompletionResponse, CompletionResponseGen, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.schema import TextNode

import groundwatch
from groundwatch.integrations.llama_index import watch_llama_index


class Parrot(CustomLLM):
    """Stand in for a language model: it always gives the same answer and needs no key."""

    @property
    def metadata(self) -> LLMMetadata:
        """Describe the model."""
        return LLMMetadata(model_name="parrot")

    @llm_completion_callback()
    def complete(
        self, prompt: str, formatted: bool = False, **kwargs: object
    ) -> CompletionResponse:
        """Answer any prompt."""
        return CompletionResponse(text="A refund takes five working days.")

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: object
    ) -> CompletionResponseGen:
        """Answer any prompt, in one piece."""
        yield self.complete(prompt)


if __name__ == "__main__":
    groundwatch.init(app="refund-index")
    watch_llama_index()
    nodes = [
        TextNode(text="A refund takes five working days."),
        TextNode(text="Delivery is free above 40 euros."),
    ]
    engine = SummaryIndex(nodes).as_query_engine(llm=Parrot())
    print(engine.query(" ".join(sys.argv[1:]) or "How long does a refund take?"))
    groundwatch.flush(timeout=5)
