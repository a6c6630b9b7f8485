"""The command line: one command per file. `run_in_terminal` gives any program what `run` has."""

from engine.cli.session import run_in_terminal
from engine.cli.view import Outcome

__all__ = ["Outcome", "run_in_terminal"]
