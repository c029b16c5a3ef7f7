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


async def ragas(url: str, model: str, samples: list[dict[str, Any]]) -> list[list[float]]:
    """Measure faithfulness and answer relevancy."""
    import openai
    from ragas.embeddings import OpenAIEmbeddings
    from ragas.llms import llm_factory
    from ragas.metrics.collections import AnswerRelevancy, Faithfulness

    client = openai.AsyncOpenAI(api_key="none", base_url=url)
    llm = llm_factory(model, client=client)
    grounded = Faithfulness(llm=llm)
    relevant = AnswerRelevancy(llm=llm, embeddings=OpenAIEmbeddings(client=client))
    scores = []
    for each in samples:
        first = await grounded.ascore(
            user_input=each["query"], response=each["output"], retrieved_contexts=each["contexts"]
        )
        second = await relevant.ascore(user_input=each["query"], response=each["output"])
        scores.append([float(first.value), float(second.value)])
    return scores


def deepeval(
    url: str, model: str, samples: list[dict[str, Any]], *, reasons: bool
) -> list[list[float]]:
    """Measure faithfulness and answer relevancy."""
    from deepeval.metrics import AnswerRelevancyMetric, FaithfulnessMetric
    from deepeval.models import GPTModel
    from deepeval.test_case import LLMTestCase

    llm = GPTModel(model=model, api_key="none", base_url=url)
    scores = []
    for each in samples:
        case = LLMTestCase(
            input=each["query"], actual_output=each["output"], retrieval_context=each["contexts"]
        )
        row = []
        for kind in (FaithfulnessMetric, AnswerRelevancyMetric):
            metric = kind(model=llm, include_reason=reasons, async_mode=False)
            row.append(float(metric.measure(case, _show_indicator=False)))
        scores.append(row)
    return scores


def main() -> None:
    """Run the peer that is asked for."""
    asked = json.load(sys.stdin)
    arguments = asked["url"], asked["model"], asked["samples"]
    if asked["peer"] == "ragas":
        scores = asyncio.run(ragas(*arguments))
    else:
        scores = deepeval(*arguments, reasons=asked["peer"] == "deepeval")
    print(json.dumps(scores))


if __name__ == "__main__":
    main()
