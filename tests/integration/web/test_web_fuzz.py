"""The API against its own description: whatever is asked, it answers as it says it does."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

DOCUMENT = json.loads(
    (Path(__file__).parents[3] / "docs" / "openapi.json").read_text(encoding="utf-8")
)
#: Whether the query has parameters, by operation.
HAS_QUERY = {
    f"{method.upper()} {path}": any(it["in"] == "query" for it in operation.get("parameters", ()))
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
}
#: Any text may stand in a path, so only what the query holds can be wrong.
CASES = [(name, "POSITIVE") for name in HAS_QUERY]
CASES += [(name, "NEGATIVE") for name, has_query in HAS_QUERY.items() if has_query]


@pytest.fixture(scope="module")
def operations():
    """All operations as schemathesis reads them, which takes a second to import."""
    import schemathesis

    schema = schemathesis.openapi.from_dict(DOCUMENT)
    found = {
        operation.label: operation for operation in (o.ok() for o in schema.get_all_operations())
    }
    assert {name: bool(operation.query) for name, operation in found.items()} == HAS_QUERY
    return found


@pytest.fixture(scope="module")
def checks():
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    return [
        not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
        checks.response_schema_conformance,
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_every_request_gets_a_response_that_the_schema_describes(
    server, operations, checks, name, mode
):
    from schemathesis.generation import GenerationMode

    @settings(
        max_examples=12,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operations[name].as_strategy(generation_mode=GenerationMode[mode]))
    def ask(case):
        answer = case.call(base_url=server.url)
        assert answer.status_code < 500
        case.validate_response(answer, checks=checks)

    ask()
