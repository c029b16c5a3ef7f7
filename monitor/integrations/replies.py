"""Where question, answer and tool calls are in what the clients of models send and get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .messages import (
    as_list,
    last_text,
    part_of,
    since_last_user,
    text_of,
    tool_call,
)


class ChatReader:
    """Chat completions, and the base of the others; of several choices the first counts."""

    def asked(self, arguments: Mapping[str, Any]) -> object:
        """Return the messages of a request."""
        return arguments.get("messages")

    def query(self, asked: object) -> str | None:
        """Find the user's last words."""
        return last_text(as_list(asked))

    def answer(self, reply: object) -> str | None:
        """Find the text of the first choice."""
        return text_of(part_of(_first_choice(reply, "message"), "content", "refusal"))

    def piece(self, chunk: object) -> str | None:
        """Find the text in a chunk of the first choice."""
        piece = part_of(_first_choice(chunk, "delta"), "content", "refusal")
        return piece if isinstance(piece, str) else None

    def calls_before(self, asked: object) -> list[dict[str, Any]]:
        """Join the calls since the user's last words with their results."""
        messages = since_last_user(as_list(asked))
        results = {
            part_of(message, "tool_call_id"): text_of(part_of(message, "content", "contents"))
            for message in messages
            if part_of(message, "role") == "tool"
        }
        calls = [c for message in messages for c in as_list(part_of(message, "tool_calls"))]
        found = []
        for call in calls:
            function = part_of(call, "function", "custom")
            arguments = part_of(function, "arguments", "input")
            result = results.get(part_of(call, "id"))
            found.append(tool_call(part_of(function, "name"), arguments, result))
        return found

    def calls_in(self, replies: Sequence[object]) -> list[dict[str, Any]]:
        """Join the pieces of each call by its index."""
        names: dict[int, str] = {}
        arguments: dict[int, str] = {}
        for reply in replies:
            message = _first_choice(reply, "message", "delta")
            for position, call in enumerate(as_list(part_of(message, "tool_calls"))):
                given = part_of(call, "index")
                index = given if isinstance(given, int) else position
                function = part_of(call, "function", "custom")
                names[index] = names.get(index, "") + (part_of(function, "name") or "")
                piece = part_of(function, "arguments", "input") or ""
                arguments[index] = arguments.get(index, "") + piece
        return [tool_call(names[index], arguments[index]) for index in sorted(names)]


class ResponsesReader(ChatReader):
    """The Responses API; its input is a text or a list of items."""

    def asked(self, arguments: Mapping[str, Any]) -> object:
        """Return the input of a request."""
        return arguments.get("input")

    def query(self, asked: object) -> str | None:
        """Find the user's last words."""
        return asked if isinstance(asked, str) else last_text(as_list(asked))

    def answer(self, reply: object) -> str | None:
        """Join the texts of the reply's messages."""
        items = as_list(part_of(reply, "output"))
        texts = [text_of(part_of(item, "content")) for item in items if _is(item, "message")]
        return "\n".join(text for text in texts if text) or None

    def piece(self, chunk: object) -> str | None:
        """Find the text in an event."""
        piece = part_of(chunk, "delta") if _is(chunk, "response.output_text.delta") else None
        return piece if isinstance(piece, str) else None

    def calls_before(self, asked: object) -> list[dict[str, Any]]:
        """Join the calls since the user's last words with their results."""
        items = since_last_user(as_list(asked))
        results = {
            part_of(item, "call_id"): part_of(item, "output")
            for item in items
            if _is(item, "function_call_output")
        }
        return [
            tool_call(
                part_of(c, "name"), part_of(c, "arguments"), results.get(part_of(c, "call_id"))
            )
            for c in items
            if _is(c, "function_call")
        ]

    def calls_in(self, replies: Sequence[object]) -> list[dict[str, Any]]:
        """List the calls in the reply, which a stream brings whole at its end."""
        wholes = [part_of(reply, "response") or reply for reply in replies]
        items = [item for whole in wholes for item in as_list(part_of(whole, "output"))]
        calls = [item for item in items if _is(item, "function_call")]
        return [tool_call(part_of(c, "name"), part_of(c, "arguments")) for c in calls]


class CompletionsReader(ChatReader):
    """The older completions: a prompt without roles, a text for an answer, no tools."""

    def asked(self, arguments: Mapping[str, Any]) -> object:
        """Return the prompt of a request."""
        return arguments.get("prompt")

    def query(self, asked: object) -> str | None:
        """Return the prompt; of several, or of token ids, none."""
        return asked if isinstance(asked, str) else None

    def answer(self, reply: object) -> str | None:
        """Find the text of the first choice."""
        return text_of(_first_choice(reply, "text"))

    def piece(self, chunk: object) -> str | None:
        """Find the text in a chunk of the first choice."""
        return self.answer(chunk)


class MessagesReader(ChatReader):
    """Anthropic's messages, whose contents are blocks."""

    def answer(self, reply: object) -> str | None:
        """Join the texts of a message."""
        return text_of(part_of(reply, "content"))

    def piece(self, chunk: object) -> str | None:
        """Find the text in an event."""
        piece = part_of(part_of(chunk, "delta"), "text")
        return piece if isinstance(piece, str) else None

    def calls_before(self, asked: object) -> list[dict[str, Any]]:
        """Join the calls since the user's last words with their results."""
        messages = as_list(asked)
        # Results come in the user's name.
        last = max((n for n, m in enumerate(messages) if last_text([m])), default=-1)
        blocks = [b for m in messages[last + 1 :] for b in as_list(part_of(m, "content"))]
        results = {
            part_of(block, "tool_use_id"): text_of(part_of(block, "content"))
            for block in blocks
            if _is(block, "tool_result")
        }
        calls = [block for block in blocks if _is(block, "tool_use")]
        return [
            tool_call(part_of(c, "name"), part_of(c, "input"), results.get(part_of(c, "id")))
            for c in calls
        ]

    def calls_in(self, replies: Sequence[object]) -> list[dict[str, Any]]:
        """List the calls in a message, or in the events of one."""
        found: list[list[Any]] = []
        for reply in replies:
            blocks = [*as_list(part_of(reply, "content")), part_of(reply, "content_block")]
            found += [
                [part_of(block, "name"), part_of(block, "input") or ""]
                for block in blocks
                if _is(block, "tool_use")
            ]
            more = part_of(part_of(reply, "delta"), "partial_json")
            if found and isinstance(more, str) and isinstance(found[-1][1], str):
                found[-1][1] += more
        return [tool_call(name, arguments) for name, arguments in found]


def cost_of(reply: object) -> dict[str, object]:
    """Return a reply's ``model``, ``input_tokens`` and ``output_tokens``, where it names them."""
    model, usage = part_of(reply, "model"), part_of(reply, "usage")
    tokens = {
        "input_tokens": part_of(usage, "input_tokens", "prompt_tokens"),
        "output_tokens": part_of(usage, "output_tokens", "completion_tokens"),
    }
    named = {"model": model} if isinstance(model, str) and model else {}
    return named | {name: n for name, n in tokens.items() if isinstance(n, int)}


def _first_choice(reply: object, *names: str) -> object:
    # Of a stream of several, each chunk holds one or more, whichever has come.
    choices = as_list(part_of(reply, "choices"))
    first = next((choice for choice in choices if not part_of(choice, "index")), None)
    return part_of(first, *names)


def _is(item: object, kind: str) -> bool:
    return bool(part_of(item, "type") == kind)
