"""What can be broken in a module, and what is left alone because no test should notice it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

LOGS = re.compile(r"_?(log|logger)(\.\w+)?\.(debug|info|warning|error|exception)$")
CACHES = re.compile(r"(functools\.)?(lru_cache|cache|cached_property)\b")
#: Equality exchanged for identity: the same for enumerations, None and small numbers.
IDENTITY = re.compile(r"_(Eq|NotEq|Lt|LtE|Gt|GtE)_Is|_Is_Eq|_IsNot_NotEq")
Place = tuple[str, int, int, str]  # module, line, column, the kind of change


def places(tree: Path, modules: Sequence[str]) -> dict[Place, list[tuple[Any, int]]]:
    """Return all changes, as operator and occurrence, by place; none that no test should notice."""
    from cosmic_ray.ast import ast_nodes, get_ast  # noqa: PLC0415  # of the tools
    from cosmic_ray.plugins import get_operator, operator_names  # noqa: PLC0415

    operators = [get_operator(name) for name in operator_names() if not name.endswith("NoOp")]
    found: dict[Place, list[tuple[Any, int]]] = defaultdict(list)
    for module in modules:
        source = (tree / module).read_text(encoding="utf-8")
        nodes, unread = list(ast_nodes(get_ast(source))), list(spans_without_claim(source))
        for operator in operators:
            if operator.arguments() or IDENTITY.search(operator.__name__):
                continue
            starts = (at for node in nodes for at, _ in operator().mutation_positions(node))
            for occurrence, start in enumerate(starts):
                if not any(low <= start < high for low, high in unread):
                    kind = operator.__name__.split("_")[0]
                    found[module, *start, kind].append((operator, occurrence))
    return found


def spans_without_claim(source: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield beginning and end of what no test should notice: see `make mutants`."""
    tree = ast.parse(source)
    constants = [node for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))]
    unread: list[Any] = [node.value for node in constants if is_plain_number(node.value)]
    for node in ast.walk(tree):
        unread += [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.keyword) and node.arg in {"strict", "frozen"}:  # of zip, models
            unread.append(node.value)
        if isinstance(node, ast.ClassDef):  # frozen, slots, kw_only
            unread += node.decorator_list
        if isinstance(node, ast.FunctionDef):
            unread += [each for each in node.decorator_list if CACHES.match(ast.unparse(each))]
            if node.args.args and node.args.kwonlyargs:  # between them a star, which is no product
                last, first = [*node.args.args, *node.args.defaults][-1], node.args.kwonlyargs[0]
                assert last.end_lineno is not None
                assert last.end_col_offset is not None
                yield (last.end_lineno, last.end_col_offset), (first.lineno, first.col_offset)
        if isinstance(node, ast.Call) and LOGS.match(ast.unparse(node.func)):
            unread.append(node)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            unread.append(node.test)
    for item in unread:
        if isinstance(item, ast.expr):
            assert item.end_lineno is not None
            assert item.end_col_offset is not None
            yield (item.lineno, item.col_offset), (item.end_lineno, item.end_col_offset)


def is_plain_number(value: ast.expr | None) -> bool:
    """Return whether an expression has numbers alone, such as ``(7 * DAY_S, 0.5)``."""
    parts = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Tuple, ast.Load)
    return value is not None and all(
        (isinstance(node, parts) or (isinstance(node, ast.Name) and node.id.isupper()))
        and not (isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes, bool)))
        for node in ast.walk(value)
    )


def mutate(source: str, operator: Any, occurrence: int) -> str | None:
    """Return the changed source, None where that is no program or the same one."""
    from cosmic_ray.mutating import mutate_code  # noqa: PLC0415  # of the tools

    try:
        changed: str | None = mutate_code(source, operator(), occurrence)
        same = changed is None or ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source))
    except (SyntaxError, AttributeError):  # the latter from cosmic-ray, at errors with dotted names
        return None
    return None if same else changed
