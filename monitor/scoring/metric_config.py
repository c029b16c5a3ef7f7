"""
Metrics of one's own, from the metrics file and the entry points of installed packages; and the
manual of all metrics.

The file of ``GROUNDWATCH_METRICS_FILE`` is TOML, one table a metric::

    [precision_at_k]                       # parameters of a metric that ships
    k = 3
    pass_score = 0.6                       # its own line; else the metric's or the setting's

    [precision_at_1]                       # a metric that ships, under another name
    like = "precision_at_k"
    k = 1

    [politeness]                           # a function of an Interaction
    function = "my_app.metrics:politeness"
    requires = ["query", "output"]

    [tone]                                 # a question to the judge, or several by name
    criteria = "Is the tone friendly and patient?"
    requires = ["output"]

    [overall]                              # a weighted mean of other metrics
    weights = { groundedness = 0.6, tone = 0.4 }
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import reduce
from importlib import import_module, resources
from importlib.metadata import EntryPoint
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from monitor.errors import MetricFunctionError, SettingsError, first_mistake
from monitor.models import Interaction
from monitor.models.evaluation import Direction
from monitor.scoring.base import Finding
from monitor.scoring.declaration import (
    NEEDS_EMBEDDING,
    Combined,
    Computed,
    ConfiguredMetric,
    Cost,
    Declaration,
    Metric,
    NoParameters,
    RubricMetric,
)
from monitor.scoring.metrics import METRICS
from monitor.scoring.metrics.quality import Rubric, Weighted
from monitor.settings import Settings, variable

#: Where metrics of other libraries are made; imported only when one is named.
_LIBRARIES = {
    "deepeval": "monitor.contrib.metric_libraries:deepeval_metric",
    "ragas": "monitor.contrib.metric_libraries:ragas_metric",
}
_MOST_COMPARED = 12  # parts of a combined metric, whose sets are compared
#: Keys of a table that make a metric, rather than set a parameter of one.
MAKES = ("function", "criteria", "weights", "like", "file", *_LIBRARIES)


def makes_metric(table: Mapping[str, Any]) -> bool:
    """Return whether a table makes a metric; ``weights`` in one word is a parameter of one."""
    return any(
        key in table and not (key == "weights" and isinstance(table[key], str)) for key in MAKES
    )


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, or raise ``SettingsError``."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from None


def unmet_needs(metrics: Iterable[ConfiguredMetric], settings: Settings) -> dict[str, str]:
    """
    Return what the metrics that *settings* name need beyond query, contexts and output, in words.

    Without it a metric is never scored, but skipped with a reason. One that is made of others
    needs what enough of its parts need, those that need least; what only its other parts need is
    named apart.
    """
    found: dict[str, _Needs] = {}
    optional: dict[str, _Needs] = {}
    for each in metrics:  # parts come first
        needs = dict.fromkeys(inputs(each.declaration, each.parameters), True)
        rubric = isinstance(each.metric, RubricMetric) and each.metric.screen is None
        if rubric and not settings.asks_judge:
            needs[f"a judge ({variable('scorer')}=judge, or cascade)"] = False
        if NEEDS_EMBEDDING in each.declaration.skips and settings.embedding_model is None:
            needs[variable("embedding_model")] = False
        if isinstance(each.metric, Combined):
            needs = _least_needs(each.metric, found)
            parts = each.metric.weights.keys()
            rest = _union(kept.get(part, {}) for part in parts for kept in (found, optional))
            optional[each.name] = {need: sent for need, sent in rest.items() if need not in needs}
        if needs:
            found[each.name] = needs
    return {
        name: _in_words(needs)
        + (f", and for optional parts {_in_words(more)}" if (more := optional.get(name)) else "")
        for name, needs in found.items()
        if name in settings.metrics
    }


#: What a metric needs, in words, and whether it is in what the app sends.
_Needs = dict[str, bool]


def _least_needs(metric: Combined, found: Mapping[str, _Needs]) -> _Needs:
    """Return the fewest needs of parts with which a combined metric has enough of its weight."""
    unmet = [part for part in metric.weights if part in found]
    missing = metric.least_share * math.fsum(metric.weights.values()) - 1e-9
    missing -= math.fsum(weight for part, weight in metric.weights.items() if part not in found)
    every = _union(found[part] for part in unmet)
    if missing <= 0:
        return {}
    if len(unmet) > _MOST_COMPARED:
        return every
    enough = (
        _union(found[part] for part in parts)
        for n in range(1, len(unmet) + 1)
        for parts in combinations(unmet, n)
        if math.fsum(metric.weights[part] for part in parts) >= missing
    )
    return min(enough, key=len, default=every)


def _union(needs: Iterable[_Needs]) -> _Needs:
    return {need: sent for each in needs for need, sent in each.items()}


def _in_words(needs: _Needs) -> str:
    sent = [need for need, is_sent in needs.items() if is_sent]
    others = (need for need, is_sent in needs.items() if not is_sent)
    return " and ".join([*([f"{', '.join(sent)} in what your app sends"] if sent else ()), *others])


def inputs(declared: Declaration, parameters: BaseModel) -> list[str]:
    """Return what a metric reads beyond query, contexts and output; "a or b" where one will do."""
    roots = ("expected.", "metadata.", "tool_calls")
    fields = [path for path in declared.requires if path.startswith(roots)]
    if not any(getattr(parameters, name, None) for name in declared.one_of):
        either = [path for path in declared.one_of if path.startswith(roots)]
        fields += [" or ".join(either)] if either else []
    return fields


class _Foreign(BaseModel):
    """A table that makes a metric of code that is not ours."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    requires: tuple[str, ...] = ("output",)
    direction: Direction = Direction.HIGHER


class _Function(_Foreign):
    function: str
    what: str = ""
    version: str = Field("1", min_length=1, max_length=40)


class _Library(_Foreign):
    deepeval: str | None = None
    ragas: str | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)


def own_metric(name: str, table: Mapping[str, Any], where: str, folder: Path) -> Metric:
    """
    Make the metric that a table of the metrics file describes.

    Parameters
    ----------
    name
        What it will be called.
    table
        Its keys; ``file`` names a TOML file that has them instead.
    where, folder
        The file, for messages, and where relative paths begin.

    Raises
    ------
    SettingsError
        If a key is unknown, the function cannot be loaded or nothing says what to do.
    """
    if "file" in table:
        path = folder / str(table["file"])
        return own_metric(name, read_toml(path), str(path), path.parent)
    table = {key: value for key, value in table.items() if key != "pass_score"}
    place = f"{where}: [{name}]"
    try:
        return _made(name, table, place, folder)
    except ValidationError as error:
        key, what = first_mistake(error)
        if what == "unknown field":
            kinds = (_Function, Rubric, Weighted, _Library)
            known = next(kind.model_fields for kind in kinds if kind.__name__ == error.title)
            what = f"unknown key; expected {', '.join(known)} or pass_score"
        raise SettingsError(f"{place} {key}: {what}".replace(" : ", " ")) from None
    except ValueError as error:
        raise SettingsError(f"{place} {error}") from None


def _made(name: str, table: Mapping[str, Any], place: str, folder: Path) -> Metric:
    if "like" in table:
        like = str(table["like"])
        if like not in METRICS:
            hint = "".join(get_close_matches(like, METRICS, n=1)) or "one of `groundwatch metrics`"
            raise SettingsError(f"{place} like: no metric is called {like!r}: expected {hint}")
        metric = METRICS[like]
        return replace(metric, declaration=replace(metric.declaration, name=name))
    if "function" in table:
        function = _Function.model_validate(table)
        loaded = _load(function.function, place, folder)
        _check_arguments(loaded, f"{place} {function.function}")
        return function_metric(loaded, name=name, **function.model_dump(exclude={"function"}))
    if "criteria" in table:
        rubric = Rubric.model_validate(table)
        digest = _digest(f"{rubric.criteria}{rubric.scale}")
        return rubric.metric(name, "own", f"{rubric.version}-{digest}")
    if "weights" in table:
        weighted = Weighted.model_validate(table)
        return weighted.metric(name, "own", f"{weighted.version}-{_digest(str(weighted))}")
    for library in _LIBRARIES.keys() & table.keys():
        other = _Library.model_validate(table)
        own = other.model_dump(include={"requires", "direction"})
        kind = getattr(other, library)
        made: Metric = _load(_LIBRARIES[library], place)(name, kind, other.arguments, **own)
        return made
    raise SettingsError(f"{place} should have one of {', '.join(MAKES)}")


def function_metric(
    function: Callable[..., Any],
    *,
    name: str,
    what: str = "",
    requires: tuple[str, ...] = ("output",),
    direction: Direction = Direction.HIGHER,
    version: str = "1",
) -> Computed:
    """
    Make a metric of a function that takes an `Interaction`.

    It returns a number in [0, 1], a bool, None where there is nothing to score, or a
    `Finding`; anything else, and what it raises, is a failed evaluation that names the function. A
    changed function is a new version, so that it starts a new stream.
    """
    reference = f"{function.__module__}:{function.__qualname__}"

    def compute(interaction: Interaction, _: NoParameters) -> Finding:
        try:
            value = function(interaction)
        except Exception as error:  # theirs: the text may quote the interaction
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}, line {place.lineno}"
            raise MetricFunctionError(
                f"{reference} raised {type(error).__name__} ({where})"
            ) from error
        if isinstance(value, Finding):
            return value
        if value is None:
            return Finding(skipped="nothing_to_score")
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, int | float):
            if 0 <= round(value, 6) <= 1:  # a mean may be 1.0000000000000002
                return Finding(score=min(max(float(value), 0.0), 1.0))
            found = f"{value!r:.40}"
        else:
            found = f"a {type(value).__name__}"
        raise MetricFunctionError(
            f"{reference} returned {found}: expected a number in [0, 1], a bool, None or a Finding"
        )

    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        source = reference
    declaration = Declaration(
        name=name,
        what=what or (inspect.getdoc(function) or "").partition("\n")[0] or "Your own function.",
        formula=reference,
        requires=requires,
        source="own",
        backend="function",
        version=f"{version}-{_digest(source)}",
        direction=direction,
        skips=("nothing_to_score",),
    )
    return Computed(declaration, compute)


def _load(reference: str, where: str, folder: Path | None = None) -> Any:
    """Load ``module:name``; the module may stand in *folder*, such as beside the metrics file."""
    module, _, attribute = reference.partition(":")
    if not module or not attribute:
        raise SettingsError(f"{where} {reference!r} should be module:function")
    if folder is not None and str(folder.resolve()) not in sys.path:
        sys.path.append(str(folder.resolve()))  # last, so that it hides nothing
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"{where} cannot load {reference}: {error}") from None
    if not callable(found):
        raise SettingsError(f"{where} {reference} is not a function")
    return found


def _check_arguments(function: Callable[..., Any], place: str) -> None:
    """Raise SettingsError unless a function can be called with an interaction alone."""
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise SettingsError(f"{place} should take one argument, the interaction: {error}") from None
    except ValueError:  # of C, without a signature
        return


def metrics_of_entry(point: EntryPoint, source: str) -> list[Metric]:
    """
    Load the metrics of one entry point of the group ``groundwatch.evaluators``.

    It names a metric, several of them, or a plain function, whose metric then has the entry
    point's name. *source* names it in messages. Raises ``SettingsError`` if it is none of these.
    """
    try:
        found = point.load()
    except Exception as error:  # a foreign module may raise anything
        raise SettingsError(
            f"the evaluators of {source} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    listed = list(found) if isinstance(found, list | tuple) else [found]
    if all(isinstance(each, Metric) for each in listed):
        return listed
    if len(listed) == 1 and callable(found):
        return [function_metric(found, name=point.name)]
    raise SettingsError(f"{source} is neither a metric, a list of metrics nor a function")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def manual() -> str:
    """Return the manual's page: every metric that ships, its parameters, and how to add one."""
    rows, parameters = [], []
    readers: dict[str, list[str]] = {}  #: of each further input, the names of metrics
    named_by: dict[type[BaseModel], list[str]] = {}
    for metric in METRICS.values():
        declared = metric.declaration
        either = " or ".join(f"`{name}`" for name in declared.one_of)
        needed = [*(f"`{path}`" for path in declared.requires), *([either] if either else ())]
        further = chain(*(each.split(" or ") for each in inputs(declared, declared.parameters())))
        for path in further:
            readers.setdefault(path, []).append(f"`{declared.name}`")
        named_by.setdefault(declared.parameters, []).append(f"`{declared.name}`")
        cells = (
            f"`{declared.name}`",
            declared.what,
            declared.formula,
            "its parts" if isinstance(metric, Combined) else ", ".join(needed) or "see formula",
            declared.direction.value,
            "" if declared.pass_score is None else f"{declared.pass_score:g}",
            declared.source,
            declared.backend,
            _cost(metric),
            ", ".join(f"`{reason}`" for reason in declared.reasons()),
        )
        rows.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    for kind, names in named_by.items():
        for name, info in kind.model_fields.items():
            default = info.get_default(call_default_factory=True)
            shown = ", ".join(map(str, default)) if isinstance(default, tuple) else str(default)
            shown = f"`{shown or '(none)'}`"
            what = info.description or ""
            parameters.append(f"| {', '.join(names)} | `{name}` | {shown} | {what} |")
    page = resources.files("monitor.scoring").joinpath("listing.md").read_text("utf-8")
    example = json.loads(page.partition("```json\n")[2].partition("```")[0])
    shapes = [
        f"| `{path}` | `{json.dumps(reduce(dict.get, path.split('.'), example))}`"
        f" | {', '.join(names)} |"
        for path, names in readers.items()
    ]
    for mark, lines in (("METRICS", rows), ("SHAPES", shapes), ("PARAMETERS", parameters)):
        page = page.replace(f"\n{mark}\n", "\n" + "\n".join(lines) + "\n")
    return page


def _cost(metric: Metric) -> str:
    if not isinstance(metric, Combined):
        return metric.declaration.cost.value
    costs = {_cost(METRICS[part]) for part in metric.weights}
    return Cost.JUDGE.value if Cost.JUDGE.value in costs else Cost.FREE.value
