"""Command line of the engine. Each command has its own module. `run_in_terminal` gives any program the terminal session of `run`."""

from engine.cli.run_session import run_in_terminal
from engine.cli.run_views import Outcome

__all__ = ["Outcome", "run_in_terminal"]
