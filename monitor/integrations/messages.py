"""Read chat messages, whatever they are made of: dicts or objects, texts or lists of parts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

USERS = frozenset({"user", "human"})
ASSISTANTS = frozenset({"assistant", "ai", "model"})
#: Where a question or an answer is looked for in what a chain takes or gives.
_QUESTIONS = ("input", "question", "query", "prompt", "user_query")
_ANSWERS = ("answer", "output", "result", "text", "response", "content")
#: Messages that are read, the latest: the hook keeps fewer turns.
_MOST_MESSAGES = 100
#: Where the earlier turns are in what a chain takes.
_TURNS = ("chat_history", "history", "messages")
#: Types of the parts that hold what was written, as the providers call them.
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
#: What `repr` makes of a generator, a coroutine or any other object that is not text.
_CUT_OFF = re.compile(r'"<(?:async_generator|generator|coroutine) object\b')
_PLACEHOLDER = re.compile(
    r"<[\w.]+ object\b.{0,300}>|<(?:async_)?generator>|<coroutine>|<[A-Z]\w*\(.{0,300}\)>",
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
    texts = [_text_part(part) for part in as_list(content)]
    return "\n".join(text for text in texts if text) or None


def role_of(message: object) -> str:
    """Return a message's role in lower case, as any of the libraries names it."""
    role = part_of(message, "role", "type")
    return str(getattr(role, "value", role)).lower()


def last_text(messages: Iterable[object], roles: frozenset[str] = USERS) -> str | None:
    """Find the text of the last message that one of *roles* has written."""
    listed = list(messages)
    if len(listed) == 1 and isinstance(listed[0], (list, tuple)):  # LangChain's batch of one
        listed = list(listed[0])
    for message in reversed([unwrapped(message) for message in listed]):
        if role_of(message) in roles:
            text = text_of(part_of(message, "content", "parts", "contents"))
            if text:
                return text
    return None


def unwrapped(message: Any) -> Any:
    """Return what LangChain's serialized messages hold; anything else as it is."""
    for holder in ("kwargs", "data"):
        held = message.get(holder) if isinstance(message, Mapping) else None
        if isinstance(held, Mapping) and "content" in held:
            return {"type": message.get("type"), **held}
    return message


def earlier_turns(messages: Iterable[object]) -> list[dict[str, str]] | None:
    """List what user and assistant said before the user's last message; None where nothing."""
    listed = [*messages]
    if len(listed) == 1 and isinstance(listed[0], (list, tuple)):
        listed = [*listed[0]]
    turns: list[dict[str, str]] = []
    before = 0
    for message in map(unwrapped, listed[-_MOST_MESSAGES:]):
        role = role_of(message)
        if role in USERS | ASSISTANTS:
            text = text_of(part_of(message, "content", "parts", "contents"))
            if text:
                before = len(turns) if role in USERS else before
                name = "user" if role in USERS else "assistant"
                turns.append({"role": name, "content": text})
    return turns[:before] or None


def since_last_user(messages: Sequence[Any]) -> Sequence[Any]:
    """Return the messages that follow the last one of the user."""
    for index in range(len(messages) - 1, -1, -1):
        if role_of(messages[index]) in USERS:
            return messages[index + 1 :]
    return messages


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
            asked = ({"role": "user", "content": "?"},) if _first(inputs, _QUESTIONS) else ()
            found = earlier_turns([*listed, *asked]) if listed else None
            if found:
                return found
        return None
    return earlier_turns(as_list(inputs))


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


def _text_part(part: object) -> str | None:
    if isinstance(part, str):
        return part
    kind = part_of(part, "type")
    if kind is not None and str(kind) not in _TEXT_PARTS:
        return None
    found = part_of(part, "text", "content")
    return found if isinstance(found, str) else None
