"""A usage error must not look like an answer: status answers by its exit code."""

import pytest
from typer.testing import CliRunner

from monitor.cli.app import app


@pytest.mark.parametrize("command", ["status", "report", "alerts", "doctor"])
def test_asking_for_help_is_no_mistake(command):
    assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0


def test_name_that_is_none_is_told_with_the_one_that_was_meant():
    result = CliRunner().invoke(app, ["statsu"])
    assert result.exit_code == 2
    assert "No such command 'statsu'. Did you mean 'status'?" in result.output
    assert "Did you mean" not in CliRunner().invoke(app, ["xyz"]).output


@pytest.mark.parametrize(("command", "code"), [("status", 3), ("report", 2), ("replay", 2)])
def test_exit_code_of_a_usage_error(command, code):
    assert CliRunner().invoke(app, [command, "--bogus"]).exit_code == code
