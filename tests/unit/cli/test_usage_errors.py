"""A usage error must not look like an answer: status answers by its exit code."""

import pytest
from typer.testing import CliRunner

from monitor.cli.app import app


@pytest.mark.parametrize("command", ["status", "report", "alerts", "doctor"])
def test_help_is_not_a_usage_error(command):
    assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0


def test_unknown_command_suggests_the_closest_name():
    result = CliRunner().invoke(app, ["statsu"])
    assert result.exit_code == 2
    assert "No such command 'statsu'. Did you mean 'status'?" in result.output
    assert "Did you mean" not in CliRunner().invoke(app, ["xyz"]).output


@pytest.mark.parametrize(("command", "code"), [("status", 3), ("report", 2), ("replay", 2)])
def test_usage_error_has_its_exit_code(command, code):
    assert CliRunner().invoke(app, [command, "--bogus"]).exit_code == code
