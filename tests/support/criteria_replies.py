"""What the judge on loopback says to criteria: counted words again, always of the right form."""

from __future__ import annotations

import json
import re
from typing import Any

_WORD = re.compile(r"\w+")
_LEAST_CHARS = 4


def asks_criteria(request: dict[str, Any]) -> bool:
    """Say whether a request asks criteria rather than for verdicts on sentences."""
    return '{"criteria":' in str(request["messages"][-1].get("content"))


def answer_criteria(request: dict[str, Any], canary: str) -> dict[str, Any]:
    """Answer each criterion: numbers of what shares no word with the other side, or a share."""
    message = asked_of(request)
    answers = [_answer(each, message["data"]) for each in message["criteria"]]
    return {"canary": canary, "answers": answers}


def asked_of(request: dict[str, Any]) -> dict[str, Any]:
    """Read what a request about criteria asks, the marks of its texts undone."""
    content = str(request["messages"][-1]["content"])
    message = json.loads(content[content.index("{") : content.rindex("}") + 1])
    mark = str(message.get("every_space_in_the_texts_of_data_is_written_as", ""))
    if mark:
        message["data"] = json.loads(json.dumps(message["data"]).replace(mark, " "))
    found: dict[str, Any] = message
    return found


def _answer(criterion: dict[str, str], data: dict[str, Any]) -> dict[str, Any]:
    form = criterion["form"]
    query, said = _words(data.get("query", "")), _words(_text(data, "sentences"))
    passages = _words(_text(data, "passages")) | _words(_text(data, "reference"))
    share = len(query & said) / len(query) if query else 1.0
    numbers: list[int] = []
    if form == "sentences":
        against = _words(_text(data, "reference")) or query or passages
        numbers = [n for n, words in _numbered(data, "sentences") if not words & against]
    elif form == "passages":
        numbers = [n for n, words in _numbered(data, "passages") if words & (query or said)]
    elif form == "reference":
        numbers = [n for n, words in _numbered(data, "reference") if words and words <= said]
    texts = [data.get("query") or "none"]
    if "`yes:`" in criterion["question"]:
        stated = _numbered(data, "reference")
        texts = [f"{'yes' if words <= passages else 'no'}: statement {n}" for n, words in stated]
    score = {"level": 0.6, "rating": 4}.get(form, round(share, 2))
    if criterion["name"].startswith("toxicity."):
        score = 0.0
    return {
        "name": criterion["name"],
        "reasoning": f"It shares {share:.0%} of the words.",
        "numbers": numbers,
        "texts": texts if form == "texts" else [],
        "score": score,
        "suggestions": [] if share == 1 else ["Take up more of the question."],
    }


def _text(data: dict[str, Any], key: str) -> str:
    return " ".join(str(item["text"]) for item in data.get(key, ()))


def _numbered(data: dict[str, Any], key: str) -> list[tuple[int, set[str]]]:
    return [(item["number"], _words(str(item["text"]))) for item in data.get(key, ())]


def _words(text: str) -> set[str]:
    return {word.lower()[:5] for word in _WORD.findall(text) if len(word) >= _LEAST_CHARS}
