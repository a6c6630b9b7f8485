"""Command line of the engine. Each command has its own module. `run_in_terminal` gives any program the terminal session of `run`."""

from engine.cli.run_session import run_in_terminal
from engine.cli.run_views import Outcome
from engine.cli.watched_run import HttpOptions

__all__ = ["HttpOptions", "Outcome", "run_in_terminal"]
