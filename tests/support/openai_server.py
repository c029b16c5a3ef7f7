"""An OpenAI endpoint on loopback: chat completions and responses, whole and streamed."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

_LONGEST_WAIT_S = 10
#: Chunks that are sent before `go_on`.
_AT_ONCE = 2

WORDS = ("Five", " days", ".")
USAGE = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
CALL: dict[str, Any] = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "find", "arguments": '{"k": 1}'},
}


class OpenAIServer(ThreadingHTTPServer):
    """
    A real HTTP server that answers everything with `WORDS`; use it in a ``with``.

    Streamed answers send their first word at once, and the rest when ``go_on`` is set, as it is
    from the start. With ``calls_tool`` a whole answer is `CALL` instead (None: once, if there are
    tools); with ``fails`` an error. ``/v1/messages`` answers as Anthropic does, ``/v1/embeddings``
    with one number.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.go_on = threading.Event()
        self.go_on.set()
        self.calls_tool: bool | None = False
        self.fails = False

    @property
    def url(self) -> str:
        """The value for ``OPENAI_BASE_URL``."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that leave early are part of the play."""


class _Handler(BaseHTTPRequestHandler):
    server: OpenAIServer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Write no access log."""

    def do_POST(self) -> None:
        """Answer one request."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        chat = self.path.endswith("/completions")
        old = chat and "prompt" in asked
        calls_tool = self.server.calls_tool
        if calls_tool is None:
            said = asked.get("messages") or asked.get("input") or [{}]
            calls_tool = bool(asked.get("tools")) and not {"tool_call_id", "call_id"} & {*said[-1]}
        if self.server.fails:
            self._json(400, {"error": {"message": "no", "code": "bad"}})
        elif self.path.endswith("/embeddings"):
            vector = {"object": "embedding", "index": 0, "embedding": [1.0]}
            self._json(200, {"object": "list", "model": "m-1", "data": [vector], "usage": USAGE})
        elif self.path.endswith("/messages"):
            if asked.get("stream"):
                self._stream(message_events())
            else:
                self._json(200, message())
        elif asked.get("stream"):
            events = chat_events(asked.get("n") or 1) if chat else response_events()
            if (asked.get("stream_options") or {}).get("include_usage"):
                events.append({**events[-1], "choices": [], "usage": USAGE})
            self._stream([as_text_completion(event) for event in events] if old else events)
        else:
            whole = (completion if chat else response)(calls_tool=calls_tool)
            self._json(200, as_text_completion(whole) if old else whole)

    def _stream(self, events: list[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for number, event in enumerate(events):
            if number == _AT_ONCE:
                self.server.go_on.wait(_LONGEST_WAIT_S)
            head = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{head}data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")

    def _json(self, status: int, payload: object) -> None:
        body = json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def completion(*, calls_tool: bool = False) -> dict[str, Any]:
    """Make a whole chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": "".join(WORDS)}
    if calls_tool:
        message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    return {
        "id": "c", "object": "chat.completion", "created": 0, "model": "m-1",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}], "usage": USAGE,
    }  # fmt: skip


def as_text_completion(reply: dict[str, Any]) -> dict[str, Any]:
    """Turn a chat completion, or a chunk of one, into one of the older kind."""
    said = [choice.get("message") or choice.get("delta") for choice in reply["choices"]]
    choices = [
        {"index": 0, "finish_reason": "stop", "text": each.get("content") or ""} for each in said
    ]
    return reply | {"object": "text_completion", "choices": choices}


def chat_events(choices: int = 1) -> list[dict[str, Any]]:
    """
    Make the chunks of a completion: a role, the words, a tool's call in two pieces.

    Of several choices the first says so, each of the others "other"; their chunks alternate.
    """
    function = CALL["function"]
    first = {"index": 0, "id": "call_1", "function": {"name": function["name"], "arguments": ""}}
    second = {"index": 0, "function": {"arguments": function["arguments"]}}
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": ""},
        *({"content": word} for word in WORDS),
        {"tool_calls": [first]},
        {"tool_calls": [second]},
    ]
    return [
        {
            "id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m-1",
            "choices": [{"index": index, "finish_reason": None, "delta": said}],
        }
        for delta in deltas
        for index in reversed(range(choices))
        for said in [{"content": "other"} if index else delta]
    ]  # fmt: skip


def response(*, calls_tool: bool = False) -> dict[str, Any]:
    """Make a whole response."""
    message = {
        "type": "message", "id": "m", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "".join(WORDS), "annotations": []}],
    }  # fmt: skip
    call = {
        "type": "function_call", "id": "f", "call_id": "call_1", "name": "find",
        "arguments": '{"k": 1}', "status": "completed",
    }  # fmt: skip
    return {
        "id": "r", "object": "response", "created_at": 0, "model": "m-1", "status": "completed",
        "output": [call] if calls_tool else [message], "parallel_tool_calls": True,
        "tool_choice": "auto", "tools": [],
        "usage": {
            "input_tokens": 12, "output_tokens": 3, "total_tokens": 15,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }  # fmt: skip


def response_events() -> list[dict[str, Any]]:
    """Make the events of a streamed response."""
    part = {"type": "output_text", "text": "", "annotations": []}
    item = response()["output"][0]
    at = {"item_id": "m", "output_index": 0, "content_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response(), "output": [], "usage": None}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **at, "part": part},
        *({"type": "response.output_text.delta", **at, "delta": w, "logprobs": []} for w in WORDS),
        {"type": "response.completed", "response": response()},
    ]
    return [{**event, "sequence_number": n} for n, event in enumerate(events)]


def message() -> dict[str, Any]:
    """Make a whole message of Anthropic's."""
    return {
        "id": "msg", "type": "message", "role": "assistant", "model": "m-1",
        "content": [{"type": "text", "text": "".join(WORDS)}], "stop_reason": "end_turn",
        "stop_sequence": None, "usage": {"input_tokens": 12, "output_tokens": 3},
    }  # fmt: skip


def message_events() -> list[dict[str, Any]]:
    """Make the events of a streamed message of Anthropic's."""
    begun = message() | {"content": [], "usage": {"input_tokens": 12, "output_tokens": 1}}
    deltas = ({"type": "text_delta", "text": word} for word in WORDS)
    return [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
         "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]  # fmt: skip
