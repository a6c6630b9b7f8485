"""Commands of the command line, called in this process."""

import pytest

from engine.cli.main import run_command_line


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> tuple[str, str]:
    """Run a command. Return its standard output and standard error."""
    assert run_command_line(list(arguments)) == status
    return tuple(capsys.readouterr())  # type: ignore[return-value]
