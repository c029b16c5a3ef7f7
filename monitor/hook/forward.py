"""A wrapper with the parameters of what it wraps: half the price of ``*args, **kwargs``."""

from __future__ import annotations

import keyword
from collections.abc import Callable
from inspect import Parameter
from types import FunctionType
from typing import Any

Function = Callable[..., Any]
#: What the wrapper's body needs, under names that a parameter of the host's may not have.
_OURS = ("_gw_function", "_gw_gated", "_gw_sampled")
_SOURCE = """\
def made({names}):
    def wrapper({parameters}):
        result = {function}({call})
        for _ in {gated}.gate.misses:
            return result
        {sampled}(({positional}), {{{named}}}, result)
        return result
    return wrapper
"""
_SIMPLE = {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY}


def forwarding(
    function: Function, parameters: dict[str, Parameter], gated: object, sampled: Function
) -> Function | None:
    """
    Wrap a function by one that takes the same parameters; None if they are not simple enough.

    To gather arguments in a tuple and a dict and to spread them again costs twice what the
    wrapper does with them. So its source is written for the parameters, as `dataclasses` writes
    ``__init__``: every name in it is one that Python itself has taken for a parameter.

    Parameters
    ----------
    function
        What to call.
    parameters
        Its parameters, in their order.
    gated
        Has a ``gate``; a call for which it hands out a miss is done.
    sampled
        Called for the other ones, with the arguments as a tuple and a dict, and the result.
    """
    if (
        type(function) is not FunctionType
        or {"__wrapped__", "__signature__"} & vars(function).keys()
    ):
        return None  # the parameters shown may not be its own
    if not all(_is_simple(parameter) for parameter in parameters.values()):
        return None
    names = dict(zip(("function", "gated", "sampled"), _OURS, strict=True))
    source = _SOURCE.format(names=", ".join(_OURS), **names, **_parts(parameters))
    namespace: dict[str, Any] = {}
    exec(compile(source, "<groundwatch watch>", "exec"), namespace)  # noqa: S102  # see above
    made: FunctionType = namespace["made"](function, gated, sampled)
    # With the function's own globals, in which frameworks look up annotations.
    code, known, defaults = made.__code__, function.__globals__, function.__defaults__
    wrapper = FunctionType(code, known, function.__name__, defaults, made.__closure__)
    wrapper.__kwdefaults__ = function.__kwdefaults__
    return wrapper


def _is_simple(parameter: Parameter) -> bool:
    name = parameter.name
    usable = name.isidentifier() and not keyword.iskeyword(name)
    return parameter.kind in _SIMPLE and usable and name not in {*_OURS, "result", "_"}


def _parts(parameters: dict[str, Parameter]) -> dict[str, str]:
    """Give the texts in which the sources differ."""
    named = [p.name for p in parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
    only = [p.name for p in parameters.values() if p.kind is Parameter.POSITIONAL_ONLY]
    positional = [name for name in parameters if name not in named]
    written = [*positional]
    if only:
        written.insert(len(only), "/")
    if named:
        written += ["*", *named]
    return {
        "parameters": ", ".join(written),
        "call": ", ".join([*positional, *(f"{name}={name}" for name in named)]),
        "positional": "".join(f"{name}, " for name in positional),
        "named": ", ".join(f"{name!r}: {name}" for name in named),
    }
