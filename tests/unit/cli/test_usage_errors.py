"""A usage error must not look like an answer: status answers by its exit code."""

import pytest
from typer.testing import CliRunner

from monitor.cli.app import app


@pytest.mark.parametrize(("command", "code"), [("status", 3), ("report", 2), ("replay", 2)])
def test_exit_code_of_a_usage_error(command, code):
    assert CliRunner().invoke(app, [command, "--bogus"]).exit_code == code
