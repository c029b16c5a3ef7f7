"""A server that answers our judge, RAGAS and DeepEval alike, and counts what each asks."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import common  # noqa: F401 - finds the tests' support

from monitor.scoring.sentences import split_sentences
from monitor.testing.receivers import Serving
from support.judge_replies import completion, judge_by_overlap

_BYTES_PER_TOKEN = 4
_CASE = re.compile(r"case (\d{3})")
_EMBEDDING = [0.1, 0.2, 0.3]
_REASON = "The passage says so in its first sentences."


class CountingServer(Serving):
    """
    Counts calls and tokens by client; the first part of the path says who asks.

    Tokens are a quarter of the bytes of messages, tools and schemas on the way in, and
    of the content on the way out: the same measure for everybody.
    """

    def __init__(self, samples: Sequence[dict[str, Any]]) -> None:
        self._samples = samples
        self._lock = threading.Lock()
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.counter = self  # type: ignore[attr-defined]

    def url(self, client: str) -> str:
        """Name the address for *client*."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/{client}/v1"

    def answer(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        """Count a request and answer it."""
        client = path.split("/")[1]
        if path.endswith("/embeddings"):
            self._count(client, {"embeddings": 1})
            return _embedded(request["input"])
        content, tool = self._content(client, request)
        output = len(content.encode()) // _BYTES_PER_TOKEN
        more = {"calls": 1, "input tokens": _tokens(request), "output tokens": output}
        self._count(client, more)
        payload = completion(content, request, str(request.get("model")))
        if tool:
            function = {"name": tool, "arguments": content}
            call = {"id": "call-1", "type": "function", "function": function}
            payload["choices"][0]["message"] |= {"content": None, "tool_calls": [call]}
            payload["choices"][0]["finish_reason"] = "tool_calls"
        return payload

    def _count(self, client: str, more: dict[str, int]) -> None:
        with self._lock:
            self.counts[client].update(more)

    def _content(self, client: str, request: dict[str, Any]) -> tuple[str, str | None]:
        """Write the content of the answer, and the name of the tool that takes it."""
        if client == "ours":
            return json.dumps(judge_by_overlap(request)), None
        text = "\n".join(str(message.get("content")) for message in request["messages"])
        case = _CASE.findall(text)
        sample = self._samples[int(case[-1])] if case else self._samples[0]
        tools = request.get("tools") or []
        if tools:
            function = tools[0]["function"]
            return json.dumps(Form(function["parameters"], sample).fill()), str(function["name"])
        given = (request.get("response_format") or {}).get("json_schema") or {}
        schema = given.get("schema") or _schema_in(text)
        return json.dumps(Form(schema, sample).fill()), None


def _tokens(request: dict[str, Any]) -> int:
    texts = [str(message.get("content")) for message in request["messages"]]
    texts += [json.dumps(request[key]) for key in ("tools", "response_format") if request.get(key)]
    return sum(len(text.encode()) for text in texts) // _BYTES_PER_TOKEN


def _embedded(texts: list[str] | str) -> dict[str, Any]:
    count = len(texts) if isinstance(texts, list) else 1
    rows = [{"object": "embedding", "index": n, "embedding": _EMBEDDING} for n in range(count)]
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
        return self._typed(name, part, item)

    def _typed(self, name: str, part: dict[str, Any], item: str) -> Any:
        kind = part.get("type")
        if kind == "array":
            listed = self._lists.get(name, self._said)
            return [self._value(name, part["items"], each) for each in listed]
        if kind == "object":
            return {key: self._value(key, each, item) for key, each in part["properties"].items()}
        if kind in {"integer", "number", "boolean"}:
            return int(name != "noncommittal")
        return self._texts.get(name, item or "yes")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Write no access log."""

    def do_POST(self) -> None:
        """Answer one call; what cannot be answered is a 400 that says why."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, payload = 200, {}
        try:
            payload = self.server.counter.answer(self.path, request)  # type: ignore[attr-defined]
        except (ValueError, KeyError) as error:
            status, payload = 400, {"error": {"message": repr(error), "code": "not_understood"}}
        body = json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
