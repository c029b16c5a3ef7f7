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


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "status --window 5m",
            "--window needs a metric: groundwatch status APP METRIC --window 5m",
        ),
        ("status bot --window 7d", "read all of them with: groundwatch report --window 7d"),
        ("status bot groundedness --window banana", "Invalid duration 'banana': expected 90s"),
    ],
)
def test_window_of_a_status_is_refused_where_it_has_no_use(command, said):
    result = CliRunner().invoke(app, command.split(), env={"TERMINAL_WIDTH": "300"})
    assert result.exit_code == 3
    assert said in " ".join(result.output.replace("│", " ").split())
