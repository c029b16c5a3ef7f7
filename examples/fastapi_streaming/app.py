"""
A FastAPI app that retrieves passages and streams its answer.

Run it:       uvicorn app:app
Ask it:       curl 'localhost:8000/ask?question=How+long+does+a+refund+take'
Break it:     BROKEN=1 uvicorn app:app   (the answer no longer comes from the passages)
"""

import asyncio
import os
from collections.abc import AsyncIterator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

import groundwatch
from groundwatch.integrations.asgi import InteractionMiddleware

PASSAGES = [
    "A refund takes five working days after the parcel has reached our warehouse.",
    "Delivery within the country is free for orders above 40 euros.",
    "Gift cards are valid for three years and cannot be exchanged for cash.",
]

groundwatch.init(app=os.environ.get("GROUNDWATCH_APP", "refund-desk"))
app = FastAPI()
# Flushes what is still buffered when the server shuts down.
app.add_middleware(InteractionMiddleware)


def retrieve(question: str) -> list[str]:
    """Return the two passages that share most words with the question."""
    words = set(question.lower().split())
    return sorted(PASSAGES, key=lambda text: -len(words & set(text.lower().split())))[:2]


async def generate(passages: list[str]) -> AsyncIterator[str]:
    """Stand in for a language model: stream the best passage word by word."""
    text = "Purple engines are sold on the moon base." if os.environ.get("BROKEN") else passages[0]
    for word in text.split():
        await asyncio.sleep(0)
        yield f"{word} "


@app.get("/ask")
async def ask(question: str) -> StreamingResponse:
    """Answer in pieces; the interaction is recorded when the last one has been sent."""

    async def pieces() -> AsyncIterator[str]:
        with groundwatch.interaction(query=question) as it:
            it.contexts = retrieve(question)
            said = []
            async for piece in generate(it.contexts):
                said.append(piece)
                yield piece
            it.output = "".join(said)

    return StreamingResponse(pieces(), media_type="text/plain")
