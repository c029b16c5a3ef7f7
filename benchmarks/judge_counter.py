"""A server that answers our judge, RAGAS and DeepEval alike, and counts what each asks."""

import json
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from common import Sink

from monitor.scoring.sentences import split_sentences
from support.judge_replies import completion, judge_by_overlap

_CASE = re.compile(r"case (\d{3})")
_REASON = "The passage says so in its first sentences."


class CountingServer(Sink):
    """
    Counts calls and tokens by client; the first part of the path says who asks.

    Tokens are a quarter of the bytes of messages, tools and schemas on the way in, and
    of the content on the way out: the same measure for everybody.
    """

    def __init__(self, samples: Sequence[dict[str, Any]]) -> None:
        super().__init__()
        self._samples = samples
        self._lock = threading.Lock()
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)

    def reply(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Answer one call; what cannot be answered is a 400 that says why."""
        request, client = json.loads(body), path.split("/")[1]
        try:
            if path.endswith("/embeddings"):
                texts = request["input"]
                payload = _embedded(1 if isinstance(texts, str) else len(texts))
                spent = {"embeddings": 1}
            else:
                payload, spent = self._completion(client, request)
        except (ValueError, KeyError) as error:
            failure = {"error": {"message": repr(error), "code": "not_understood"}}
            return 400, json.dumps(failure).encode()
        with self._lock:
            self.counts[client].update(spent)
        return 200, json.dumps(payload).encode()

    def _completion(
        self, client: str, request: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, int]]:
        """Return the answer and what it cost."""
        texts = [str(message.get("content")) for message in request["messages"]]
        tools = request.get("tools") or []
        if client == "ours":
            content = json.dumps(judge_by_overlap(request))
        else:
            whole = "\n".join(texts)
            case = _CASE.findall(whole)
            given = (request.get("response_format") or {}).get("json_schema") or {}
            schema = (
                tools[0]["function"]["parameters"]
                if tools
                else given.get("schema") or _schema_in(whole)
            )
            content = json.dumps(Form(schema, self._samples[int(case[-1]) if case else 0]).fill())
        payload = completion(content, request, str(request.get("model")))
        if tools and client != "ours":
            function = {"name": tools[0]["function"]["name"], "arguments": content}
            call = {"id": "call-1", "type": "function", "function": function}
            payload["choices"][0]["message"] |= {"content": None, "tool_calls": [call]}
            payload["choices"][0]["finish_reason"] = "tool_calls"
        for key in ("tools", "response_format"):
            texts += [json.dumps(request[key])] if request.get(key) else []
        asked = sum(len(text.encode()) for text in texts)
        spent = {"input tokens": asked // 4, "output tokens": len(content.encode()) // 4}
        return payload, {"calls": 1} | spent


def _embedded(count: int) -> dict[str, Any]:
    rows = [{"object": "embedding", "index": n, "embedding": [0.1, 0.2, 0.3]} for n in range(count)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return {"object": "list", "model": "embedding", "data": rows, "usage": usage}


def _schema_in(text: str) -> dict[str, Any]:
    """Find the schema that a library wrote into its prompt: the last object with properties."""
    decoder, found = json.JSONDecoder(), None
    place = text.find("{")
    while place >= 0:
        try:
            value, place = decoder.raw_decode(text, place)
        except ValueError:
            place += 1
        else:
            found = value if "properties" in value else found
        place = text.find("{", place)
    if found is None:
        raise ValueError("asked without a schema")
    return found


class Form:
    """A schema, filled in as a model would that lists all that a sample holds."""

    def __init__(self, schema: dict[str, Any], sample: dict[str, Any]) -> None:
        self._schema = schema
        self._said = split_sentences(str(sample["output"]))
        known = [each for text in sample["contexts"] for each in split_sentences(str(text))]
        self._lists = {"truths": known}
        self._texts = {"reason": _REASON, "question": str(sample["query"])}

    def fill(self) -> dict[str, Any]:
        """Make an answer; verdicts and statements are as many as sentences of the output."""
        filled: dict[str, Any] = self._value("", self._schema, "")
        return filled

    def _value(self, name: str, part: dict[str, Any], item: str) -> Any:
        if "$ref" in part:
            part = self._schema["$defs"][part["$ref"].rsplit("/", 1)[-1]]
        if "anyOf" in part:
            part = part["anyOf"][0]
        if "enum" in part:
            return part["enum"][0]
        match part.get("type"):
            case "array":
                listed = self._lists.get(name, self._said)
                return [self._value(name, part["items"], each) for each in listed]
            case "object":
                fields = part["properties"].items()
                return {key: self._value(key, each, item) for key, each in fields}
            case "integer" | "number" | "boolean":
                return int(name != "noncommittal")
        return self._texts.get(name, item or "yes")
