"""A server that answers our judge, RAGAS and DeepEval alike, and counts what each asks."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from common import Sink

from monitor.scoring.language import split_sentences
from support.judge_replies import completion, judge_by_overlap


class CountingServer(Sink):
    """
    Counts calls and tokens by client; the first part of the path says who asks.

    Tokens are a quarter of the bytes of messages, tools and schemas on the way in, and
    of the content on the way out: the same measure for everybody.
    """

    def __init__(self, samples: Sequence[dict[str, Any]]) -> None:
        super().__init__()
        self._samples = samples
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)

    def reply(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Answer one call; what cannot be answered is a 400 that says why."""
        request, client = json.loads(body), path.split("/")[1]
        try:
            if path.endswith("/embeddings"):
                n = 1 if isinstance(request["input"], str) else len(request["input"])
                rows = [{"object": "embedding", "index": i, "embedding": [0.1, 0.2, 0.3]}
                        for i in range(n)]  # fmt: skip
                usage = {"prompt_tokens": 1, "total_tokens": 1}
                payload = {"object": "list", "model": "embedding", "data": rows, "usage": usage}
                spent = {"embeddings": 1}
            else:
                payload, spent = self._completion(client, request)
        except (ValueError, KeyError) as error:
            failure = {"error": {"message": repr(error), "code": "not_understood"}}
            return 400, json.dumps(failure).encode()
        with self._changed:
            self.counts[client].update(spent)
        return 200, json.dumps(payload).encode()

    def _completion(
        self, client: str, request: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, int]]:
        """Return the answer and what it cost."""
        texts = [str(message.get("content")) for message in request["messages"]]
        tools = request.get("tools") if client != "ours" else None
        if client == "ours":
            content = json.dumps(judge_by_overlap(request))
        else:
            whole = "\n".join(texts)
            form = (request.get("response_format") or {}).get("json_schema") or {}
            schema = tools[0]["function"]["parameters"] if tools else form.get("schema")
            number = int([0, *re.findall(r"case (\d{3})", whole)][-1])
            content = json.dumps(fill(schema or _schema_in(whole), self._samples[number]))
        payload = completion(content, request, str(request.get("model")))
        if tools:
            function = {"name": tools[0]["function"]["name"], "arguments": content}
            call = {"id": "call-1", "type": "function", "function": function}
            payload["choices"][0]["message"] |= {"content": None, "tool_calls": [call]}
            payload["choices"][0]["finish_reason"] = "tool_calls"
        texts += [json.dumps(request[key]) for key in ("tools", "response_format")
                  if request.get(key)]  # fmt: skip
        asked = sum(len(text.encode()) for text in texts)
        spent = {"input tokens": asked // 4, "output tokens": len(content.encode()) // 4}
        return payload, {"calls": 1} | spent


def _schema_in(text: str) -> dict[str, Any]:
    """Find the schema that a library wrote into its prompt: the last object with properties."""
    decoder, found, place = json.JSONDecoder(), None, 0
    while (place := text.find("{", place)) >= 0:
        try:
            value, place = decoder.raw_decode(text, place)
        except ValueError:
            place += 1
        else:
            found = value if "properties" in value else found
    if found is None:
        raise ValueError("asked without a schema")
    return found


def fill(schema: dict[str, Any], sample: dict[str, Any]) -> Any:
    """Fill a schema as a model would; verdicts are as many as sentences of the output."""
    said = split_sentences(str(sample["output"]))
    lists = {"truths": [each for text in sample["contexts"] for each in split_sentences(str(text))]}
    texts = {"reason": "The passage says so in its first sentences.",
             "question": str(sample["query"])}  # fmt: skip

    def value(name: str, part: dict[str, Any], item: str) -> Any:
        if "$ref" in part:
            part = schema["$defs"][part["$ref"].rsplit("/", 1)[-1]]
        if "anyOf" in part:
            part = part["anyOf"][0]
        if "enum" in part:
            return part["enum"][0]
        match part.get("type"):
            case "array":
                return [value(name, part["items"], each) for each in lists.get(name, said)]
            case "object":
                return {key: value(key, each, item) for key, each in part["properties"].items()}
            case "integer" | "number" | "boolean":
                return int(name != "noncommittal")
        return texts.get(name, item or "yes")

    return value("", schema, "")
