"""
Read what the clients of models send and get: messages, questions, answers and tool calls.

Whatever they are made of: dicts or objects, texts or lists of parts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..hook.capture import ASSISTANTS, ROLES, USERS

#: Where a question or an answer is looked for in what a chain takes or gives.
_QUESTIONS = ("input", "question", "query", "prompt", "user_query")
_ANSWERS = ("answer", "output", "result", "text", "response", "content")
#: Messages that are read, the latest: the hook keeps fewer turns.
_MOST_MESSAGES = 100
#: Where the earlier turns are in what a chain takes.
_TURNS = ("chat_history", "history", "messages")
#: Types of the parts that hold what was written, as the providers call them.
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
#: What `repr` makes of a generator, a coroutine or any other object that is not text, and what
#: OpenInference writes for an embedding.
_CUT_OFF = re.compile(r'"<(?:async_generator|generator|coroutine) object\b')
_PLACEHOLDER = re.compile(
    r"<[\w.]+ object\b.{0,300}>|<(?:async_)?generator>|<coroutine>|<[A-Z]\w*\(.{0,300}\)>"
    r"|<\d+-dimensional vector>",
    re.DOTALL,
)


def is_placeholder(text: str) -> bool:
    """
    Return whether *text* stands for an object instead of being what somebody wrote.

    ``<generator object f at 0x7f>`` is one, and so is JSON that was cut off with one inside.
    """
    stripped = text.strip()
    if _PLACEHOLDER.fullmatch(stripped):
        return True
    return stripped.startswith("{") and _CUT_OFF.search(stripped) is not None


def part_of(holder: object, *names: str) -> Any:
    """Find the first key or attribute that is there and not None; never raises."""
    for name in names:
        try:
            found = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
        except Exception:  # noqa: BLE001, S112  # a property of the host's may raise anything
            continue
        if found is not None:
            return found
    return None


def as_list(value: object) -> Sequence[Any]:
    """Return a list or tuple as it is, and for anything else an empty one."""
    return value if isinstance(value, (list, tuple)) else ()


def text_of(content: object) -> str | None:
    """Join what is text in a message's content; None when there is none."""
    if isinstance(content, str):
        return None if not content or is_placeholder(content) else content
    texts = []
    for part in as_list(content):
        kind = None if isinstance(part, str) else part_of(part, "type")
        if kind is None or str(kind) in _TEXT_PARTS:
            texts.append(part if isinstance(part, str) else part_of(part, "text", "content"))
    return "\n".join(text for text in texts if isinstance(text, str) and text) or None


def role_of(message: object) -> str:
    """Return a message's role in lower case, as any of the libraries names it."""
    role = part_of(message, "role", "type")
    return str(getattr(role, "value", role)).lower()


def last_text(messages: Iterable[object], roles: frozenset[str] = USERS) -> str | None:
    """Find the text of the last message that one of *roles* has written."""
    written = (_written(message) for message in reversed(_unwrapped_all(messages)))
    return next((text for role, text in written if role in roles and text), None)


def unwrapped(message: Any) -> Any:
    """Return what LangChain's serialized messages hold; anything else as it is."""
    for holder in ("kwargs", "data"):
        held = message.get(holder) if isinstance(message, Mapping) else None
        if isinstance(held, Mapping) and "content" in held:
            return {"type": message.get("type"), **held}
    return message


def earlier_turns(messages: Iterable[object]) -> list[dict[str, str]] | None:
    """List what user and assistant said before the user's last message; None where nothing."""
    turns: list[dict[str, str]] = []
    before = 0
    for role, text in map(_written, _unwrapped_all(messages)[-_MOST_MESSAGES:]):
        if text and role in USERS | ASSISTANTS:
            before = len(turns) if role in USERS else before
            turns.append({"role": "user" if role in USERS else "assistant", "content": text})
    return turns[:before] or None


def _unwrapped_all(messages: Iterable[object]) -> list[Any]:
    listed: list[Any] = [*messages]
    is_batch = len(listed) == 1 and isinstance(listed[0], (list, tuple))
    if is_batch and not _is_in_pair(listed[0]):  # LangChain's batch of one
        listed = [*listed[0]]
    return [
        {"role": each[0], "content": each[1]} if _is_in_pair(each) else unwrapped(each)
        for each in listed
    ]


def _is_in_pair(message: Any) -> bool:
    """Return whether a message is a role and what was written: ("human", "How long?")."""
    pair = as_list(message)
    return len(pair) == 2 and isinstance(pair[0], str) and pair[0].lower() in ROLES  # noqa: PLR2004


def _written(message: object) -> tuple[str, str | None]:
    """Return who wrote a message, and what."""
    role = role_of(message)
    known = role in USERS | ASSISTANTS
    return role, text_of(part_of(message, "content", "parts", "contents")) if known else None


def since_last_user(messages: Sequence[Any]) -> Sequence[Any]:
    """Return the messages that follow the last words of the user, whose name results may bear."""
    last = max((n for n, message in enumerate(messages) if last_text([message])), default=-1)
    return messages[last + 1 :]


def tool_call(name: object, arguments: object = None, result: object = None) -> dict[str, Any]:
    """Describe a tool call as a record does; arguments in JSON are read."""
    call = {"name": str(name or "unknown"), "arguments": from_json(arguments), "result": result}
    return {key: value for key, value in call.items() if value is not None}


def from_json(value: object) -> Any:
    """Read a text as JSON if it is; anything else stays as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def question_in(inputs: object) -> str | None:
    """Find the question in what a chain, an agent or a model was given."""
    if isinstance(inputs, str):
        return text_of(inputs)
    if isinstance(inputs, Mapping):
        return _first(inputs, _QUESTIONS) or last_text(as_list(inputs.get("messages")))
    return last_text(as_list(inputs))


def turns_in(inputs: object) -> list[dict[str, str]] | None:
    """Find the turns before the question in what a chain, an agent or a model was given."""
    if isinstance(inputs, Mapping):
        for name in _TURNS:
            listed = as_list(inputs.get(name))
            # A question that is an input of its own follows all that is listed.
            if listed and _first(inputs, _QUESTIONS):
                listed = [*_without_pairs(listed), {"role": "user", "content": "?"}]
            found = earlier_turns(listed) if listed else None
            if found:
                return found
        return None
    return earlier_turns(as_list(inputs))


def _without_pairs(turns: Iterable[object]) -> Iterator[object]:
    """Yield messages; a question with its answer, as LangChain's older chains have it, as two."""
    for turn in turns:
        said = [text for text in as_list(turn) if isinstance(text, str)]
        if len(said) == len(as_list(turn)) == 2 and not _is_in_pair(turn):  # noqa: PLR2004
            yield {"role": "user", "content": said[0]}
            yield {"role": "assistant", "content": said[1]}
        else:
            yield turn


def answer_in(outputs: object) -> str | None:
    """Find the answer in what a chain, an agent or a model gave back."""
    if isinstance(outputs, str):
        return text_of(outputs)
    if isinstance(outputs, Mapping):
        direct = _first(outputs, _ANSWERS)
        if direct:
            return direct
        for name in ("generations", "choices"):  # of a model; of several the first counts
            found = as_list(outputs.get(name))
            while found and isinstance(found[0], (list, tuple)):
                found = found[0]
            text = _first(found[0], ("text", "message")) if found else None
            if text:
                return text
        messages = last_text(as_list(outputs.get("messages")), ASSISTANTS)
        return messages or answer_in(outputs.get("outputs"))
    return last_text(as_list(outputs), ASSISTANTS) or text_of(part_of(outputs, "content"))


def _first(holder: object, names: Sequence[str]) -> str | None:
    for name in names:
        value = unwrapped(part_of(holder, name))
        text = text_of(value) or text_of(part_of(value, "content"))
        if text:
            return text
    return None


# --- where all this is in what each API is asked and answers ---


class ChatReader:
    """Chat completions, and the base of the others; of several choices the first counts."""

    asked_as = "messages"  #: the argument that holds what is asked

    def query(self, asked: object) -> str | None:
        """Find the user's last message; a text without roles is one message."""
        return asked if isinstance(asked, str) else last_text(as_list(asked))

    def answer(self, reply: object) -> str | None:
        """Find the text of a whole reply."""
        return text_of(part_of(_first_choice(reply, "message"), "content", "refusal"))

    def piece(self, chunk: object) -> object:
        """Find the text in a chunk of a stream."""
        return part_of(_first_choice(chunk, "delta"), "content", "refusal")

    def calls(self, message: object) -> Iterator[tuple[object, object, object]]:
        """Yield id, name and arguments of the tool calls in a message."""
        parts = as_list(part_of(message, "parts"))  # as OpenTelemetry has them
        of_parts = [part for part in parts if _is(part, "tool_call")]
        for call in of_parts or as_list(part_of(message, "tool_calls")):
            function = part_of(call, "function", "custom") or call
            arguments = part_of(function, "arguments", "input")
            yield part_of(call, "id"), part_of(function, "name"), arguments

    def results(self, message: object) -> Iterator[tuple[object, object]]:
        """Yield what the tools gave back that a message holds, with the ids of their calls."""
        if part_of(message, "role") == "tool":
            content = text_of(part_of(message, "content", "contents"))
            yield part_of(message, "tool_call_id"), content
        for part in as_list(part_of(message, "parts")):
            if _is(part, "tool_call_response"):
                said = part_of(part, "response", "result", "content")
                yield part_of(part, "id"), text_of(said)

    def calls_before(self, asked: object) -> list[dict[str, Any]]:
        """Join the calls since the user's last words with their results."""
        messages = since_last_user(as_list(asked))
        results = dict(result for message in messages for result in self.results(message))
        calls = (call for message in messages for call in self.calls(message))
        return [tool_call(name, arguments, results.get(key)) for key, name, arguments in calls]

    def calls_in(self, replies: Sequence[object]) -> list[dict[str, Any]]:
        """List the calls in a reply, or in the chunks of one: pieces are joined by their index."""
        names: dict[int, str] = {}
        arguments: dict[int, str] = {}
        for reply in replies:
            message = _first_choice(reply, "message", "delta")
            indexes = [part_of(call, "index") for call in as_list(part_of(message, "tool_calls"))]
            for position, (_, name, piece) in enumerate(self.calls(message)):
                index = position if indexes[position] is None else indexes[position]
                names[index] = names.get(index, "") + str(name or "")
                arguments[index] = arguments.get(index, "") + str(piece or "")
        return [tool_call(names[index], arguments[index]) for index in sorted(names)]


class ResponsesReader(ChatReader):
    """The Responses API; its input is a text or a list of items."""

    asked_as = "input"

    def answer(self, reply: object) -> str | None:
        """Join the texts of the reply's messages."""
        items = as_list(part_of(reply, "output"))
        texts = [text_of(part_of(item, "content")) for item in items if _is(item, "message")]
        return "\n".join(text for text in texts if text) or None

    def piece(self, chunk: object) -> object:
        """Find the text in an event."""
        return part_of(chunk, "delta") if _is(chunk, "response.output_text.delta") else None

    def calls(self, message: object) -> Iterator[tuple[object, object, object]]:
        """Yield the call that an item is."""
        if _is(message, "function_call"):
            arguments = part_of(message, "arguments")
            yield part_of(message, "call_id"), part_of(message, "name"), arguments

    def results(self, message: object) -> Iterator[tuple[object, object]]:
        """Yield the result that an item is."""
        if _is(message, "function_call_output"):
            yield part_of(message, "call_id"), part_of(message, "output")

    def calls_in(self, replies: Sequence[object]) -> list[dict[str, Any]]:
        """List the calls in the reply, which a stream brings whole at its end."""
        wholes = [part_of(reply, "response") or reply for reply in replies]
        items = [item for whole in wholes for item in as_list(part_of(whole, "output"))]
        return [tool_call(name, given) for item in items for _, name, given in self.calls(item)]


class CompletionsReader(ChatReader):
    """The older completions: a prompt without roles, a text for an answer, no tools."""

    asked_as = "prompt"

    def answer(self, reply: object) -> str | None:
        """Find the text of the first choice."""
        return text_of(_first_choice(reply, "text"))

    def piece(self, chunk: object) -> str | None:
        """Find the text in a chunk."""
        return self.answer(chunk)


class MessagesReader(ChatReader):
    """Anthropic's messages, whose contents are blocks."""

    def answer(self, reply: object) -> str | None:
        """Join the texts of a message."""
        return text_of(part_of(reply, "content"))

    def piece(self, chunk: object) -> object:
        """Find the text in an event."""
        return part_of(part_of(chunk, "delta"), "text")

    def calls(self, message: object) -> Iterator[tuple[object, object, object]]:
        """Yield the calls among the blocks of a message, or the one that an event begins."""
        for block in (*as_list(part_of(message, "content")), part_of(message, "content_block")):
            if _is(block, "tool_use"):
                yield part_of(block, "id"), part_of(block, "name"), part_of(block, "input")

    def results(self, message: object) -> Iterator[tuple[object, object]]:
        """Yield the results among the blocks of a message."""
        for block in as_list(part_of(message, "content")):
            if _is(block, "tool_result"):
                yield part_of(block, "tool_use_id"), text_of(part_of(block, "content"))

    def calls_in(self, replies: Sequence[object]) -> list[dict[str, Any]]:
        """List the calls in a message, or in the events of one, which bring arguments in pieces."""
        found: list[list[Any]] = []
        for reply in replies:
            found += [[name, given or ""] for _, name, given in self.calls(reply)]
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
