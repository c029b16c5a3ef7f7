"""
Score samples with RAGAS or DeepEval, as their manuals say; started by benchmarks/judge.py.

Reads ``{"peer", "url", "model", "samples"}`` from standard input and writes one line of
JSON: the scores of each sample. Needs only the peer, so that it can run in an environment
of its own.
"""

import asyncio
import json
import sys
from typing import Any


async def ragas(asked: dict[str, Any]) -> list[list[float]]:
    """Measure faithfulness and answer relevancy."""
    import openai
    from ragas.embeddings import OpenAIEmbeddings
    from ragas.llms import llm_factory
    from ragas.metrics.collections import AnswerRelevancy, Faithfulness

    client = openai.AsyncOpenAI(api_key="none", base_url=asked["url"])
    llm = llm_factory(asked["model"], client=client)
    grounded = Faithfulness(llm=llm)
    relevant = AnswerRelevancy(llm=llm, embeddings=OpenAIEmbeddings(client=client))
    scores = []
    for each in asked["samples"]:
        said = {"user_input": each["query"], "response": each["output"]}
        first = await grounded.ascore(**said, retrieved_contexts=each["contexts"])
        second = await relevant.ascore(**said)
        scores.append([float(first.value), float(second.value)])
    return scores


def deepeval(asked: dict[str, Any]) -> list[list[float]]:
    """Measure faithfulness and answer relevancy."""
    from deepeval.metrics import AnswerRelevancyMetric, FaithfulnessMetric
    from deepeval.models import GPTModel
    from deepeval.test_case import LLMTestCase

    llm = GPTModel(model=asked["model"], api_key="none", base_url=asked["url"])
    options = {"include_reason": asked["peer"] == "deepeval", "async_mode": False}
    scores = []
    for each in asked["samples"]:
        case = LLMTestCase(
            input=each["query"], actual_output=each["output"], retrieval_context=each["contexts"]
        )
        metrics = [
            kind(model=llm, **options) for kind in (FaithfulnessMetric, AnswerRelevancyMetric)
        ]
        scores.append([float(m.measure(case, _show_indicator=False)) for m in metrics])
    return scores


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps(asyncio.run(ragas(given)) if given["peer"] == "ragas" else deepeval(given)))
