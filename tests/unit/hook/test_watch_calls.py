"""A watched function takes what it took before, in every form, and refuses it in the same words."""

import inspect
import itertools
import typing

import pytest

import monitor


class Question:
    """Something to annotate with."""


@pytest.fixture
def hook(monkeypatch):
    """A hook that samples everything and hands it to `taken` instead of Redis."""
    hook = monitor.Hook(sample_rate=1.0, redis_url="redis://127.0.0.1:1")
    hook.taken = []
    keep = lambda given, rate=None: hook.taken.append((given["query"], given["contexts"], rate))  # noqa: E731
    monkeypatch.setattr(hook, "take", keep)
    yield hook
    hook.close(0.1)


def plain(query, contexts=()):
    return query, contexts


def only_positional(query, k, /, contexts=()):
    return query, k, contexts


def only_named(query, *, contexts=(), k=3):
    return query, contexts, k


def only_named_and_needed(*, query):
    return query


def gathering(query, *more, **others):
    return query, more, others


def named_like_ours(query, result, _gw_function=1, _=2):
    return query, result, _gw_function, _


FUNCTIONS = [
    plain, only_positional, only_named, only_named_and_needed, gathering, named_like_ours,
]  # fmt: skip
CALLS = [
    (args, dict(kwargs))
    for args in ((), ("q",), ("q", 1), ("q", 1, 2), ("q", 1, 2, 3))
    for n in range(3)
    for kwargs in itertools.combinations(
        {"query": "n", "contexts": ["c"], "k": 5, "result": 6, "unknown": 7}.items(), n
    )
]


def outcome(function, args, kwargs):
    try:
        return function(*args, **kwargs)
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_watched_function_returns_and_raises_as_before(hook, function):
    watched = hook.watch(function)
    for args, kwargs in CALLS:
        assert outcome(watched, args, kwargs) == outcome(function, args, kwargs)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_watched_function_keeps_its_signature_and_name(hook, function):
    watched = hook.watch(function)
    assert inspect.signature(watched) == inspect.signature(function)
    assert (watched.__name__, watched.__qualname__) == (function.__name__, function.__qualname__)
    assert watched.__wrapped__ is function


def test_question_and_passages_are_found_in_any_parameter_position(hook):
    hook.watch(plain)("a", ["1"])
    hook.watch(plain)(contexts=["2"], query="b")
    hook.watch(only_positional)("c", 1, contexts=["3"])
    hook.watch(only_named)("d", contexts=["4"])
    hook.watch(only_named_and_needed)(query="e")
    assert hook.taken == [
        ("a", ["1"], 1.0), ("b", ["2"], 1.0), ("c", ["3"], 1.0), ("d", ["4"], 1.0),
        ("e", None, 1.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "logged"),
    [
        ({}, []),
        ({"query": "query", "release": "v1"}, []),
        ({"query": "question"}, ["watch_unknown_parameter name='question'"]),
        ({"relase": "v1"}, ["watch_unknown_field name='relase'"]),
    ],
)
def test_only_unknown_parameter_names_are_logged(hook, caplog, names, logged):
    hook.watch(**names)(plain)
    assert caplog.messages == logged


def test_non_list_turns_are_left_unchanged(hook):
    turns = iter([{"role": "user", "content": "q"}])
    assert hook.watch(lambda history: "a")(turns) == "a"
    assert len(list(turns)) == 1


def test_text_default_is_not_taken_for_the_question(hook):
    hook.watch(lambda k, mode="fast": str(k))(3)
    assert hook.taken == [(None, None, 1.0)]


def test_method_is_watched_with_its_class_and_private_names(hook):
    class Bot:
        @hook.watch
        def answer(self, query, __secret=1):
            return query, __secret

    assert Bot().answer("q") == ("q", 1)
    assert hook.taken == [("q", None, 1.0)]


def test_annotations_are_resolved_in_the_functions_module(hook):
    def answer(query: "Question") -> "Question":
        return query

    assert typing.get_type_hints(hook.watch(answer))["query"] is Question


def test_function_that_raises_is_not_recorded(hook):
    def answer(query):
        raise KeyError(query)

    with pytest.raises(KeyError, match="q"):
        hook.watch(answer)("q")
    assert hook.taken == []
