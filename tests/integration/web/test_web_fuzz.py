"""The API against its own description: whatever is asked, it answers as it says it does."""

import json
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

DOCUMENT = Path(__file__).parents[3] / "docs" / "openapi.json"
SCHEMA = schemathesis.openapi.from_dict(json.loads(DOCUMENT.read_text(encoding="utf-8")))
OPERATIONS = {found.label: found for found in (o.ok() for o in SCHEMA.get_all_operations())}
CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance,
    response_schema_conformance,
]  # fmt: skip


#: Any text may stand in a path, so only what the query holds can be wrong.
WRONG = [name for name, operation in OPERATIONS.items() if operation.query]


@pytest.mark.parametrize(
    ("name", "mode"),
    [(name, GenerationMode.POSITIVE) for name in OPERATIONS]
    + [(name, GenerationMode.NEGATIVE) for name in WRONG],
)
def test_every_request_gets_a_response_that_the_schema_describes(server, name, mode):
    @settings(
        max_examples=12,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=OPERATIONS[name].as_strategy(generation_mode=mode))
    def ask(case):
        answer = case.call(base_url=server.url)
        assert answer.status_code < 500
        case.validate_response(answer, checks=CHECKS)

    ask()
