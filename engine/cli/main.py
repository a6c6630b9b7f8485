"""The command line's entrance: `python -m engine` and `stormcell`."""

from typing import Final

import click

from engine.cli import entrance
from engine.version import __version__

_NAMES: Final = ("run", "check", "graph", "state", "transactions", "flow-report", "kafka", "bench")
_COMMANDS: Final = {name: f"engine.cli.{name.replace('-', '_')}_command" for name in _NAMES}

_HELP: Final = """\
A stream engine with Storm's guarantees: every tuple tracked to its end.

\b
  run    run a topology until it is complete, or until Ctrl-C drains it
  check  say what is wrong with a topology file, without running it
  graph  draw a topology
  state  look at stored state, export it, delete it
  transactions
         how far transactional topologies are, by what they have stored
  flow-report
         draw how flow control went: windows and states over time
  kafka  lag, offsets and dead letters; send dead letters back
  bench  the engine's benchmarks (in a checkout)

\b
Try:
  {name} run topology.py
  {name} run topology.py --for 30s -c max_spout_pending=1000
  {name} state list sqlite:///counts.db
  {name} COMMAND --help

\b
Exit status: 0 complete or drained, 1 a component failed for good, 2 the command
line, the configuration or the topology is wrong, 130 stopped by a second signal.
"""


@click.group(cls=entrance.Commands, modules=_COMMANDS, text=_HELP, context_settings=entrance.CONTEXT)
@click.version_option(__version__, prog_name="stormcell", message="%(prog)s %(version)s")
def stormcell() -> None:
    """Hold the commands."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line, and end the process with its exit status (RUN-4)."""
    entrance.enter(stormcell, arguments)


def run_command_line(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status; `arguments` are those of the process by default."""
    return entrance.run(stormcell, arguments)
