"""Entry point of `python -m engine` and `stormcell`."""

import importlib
import sys
from typing import Final

import click

from engine.cli.console import commands
from engine.installation import checkout, hidden_version
from engine.version import __version__

_COMMANDS: Final = {
    "run": "engine.cli.run_command:command",
    "top": "engine.cli.top_command:command",
    "ctl": "engine.cli.ctl_command:command",
    "check": "engine.cli.topology_commands:check_command",
    "graph": "engine.cli.topology_commands:graph_command",
    "state": "engine.cli.state_command:command",
    "positions": "engine.cli.positions_command:command",
    "committers": "engine.cli.committers_command:command",
    "transactions": "engine.cli.transactions_command:command",
    "dead-letters": "engine.cli.dead_letters_command:command",
    "flow-report": "engine.cli.flow_report_command:command",
    "kafka": "engine.cli.kafka_command:command",
    "bench": "engine.cli.main:bench_command",
}

_HELP: Final = """\
A stream engine with Storm's guarantees: it tracks every tuple until it is processed.

\b
  run    run a topology until it is complete, or until Ctrl-C drains it
  top    show the live table of a run elsewhere
  ctl    steer a run elsewhere: drain, stop, log level, restart a task
  check  validate a topology file without running it
  graph  draw a topology
  state  inspect, export and delete stored state
  positions
         show, set and reset the positions of exact sources
  committers
         show what the targets of committers have, or let them forget it
  transactions
         show the progress of transactional topologies
  dead-letters
         show and drop rows that a topology has given up
  flow-report
         draw the windows and states of flow control over time
  kafka  show lag, offsets and dead letters; replay dead letters
  bench  run the engine's benchmarks (in a checkout)

\b
Try:
  {name} run topology.py
  {name} run topology.py --for 30s -c max_spout_pending=1000
  {name} run topology.py --http 8080
  {name} top 8080
  {name} state list sqlite:///counts.db
  {name} COMMAND --help

\b
Exit status: 0 everything is processed, 1 a component failed for good, 2 the command
line, the configuration or the topology is wrong, 3 something is left undone, 130
stopped by a second signal.
"""


@click.group(cls=commands.Program, modules=_COMMANDS, text=_HELP, context_settings=commands.CONTEXT_SETTINGS)
@click.version_option(__version__, prog_name="stormcell", message="%(prog)s %(version)s")
def stormcell() -> None:
    """Hold the commands."""


@click.command(
    "bench",
    short_help="Run the engine's benchmarks.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench_command(arguments: tuple[str, ...]) -> int:
    """Run the benchmarks with these arguments. The benchmarks are part of a checkout, not of the installed package."""
    folder = checkout()
    if folder is None or not (folder / "bench" / "cli.py").is_file():
        raise click.UsageError("the installed package has no benchmarks. Run this command in a checkout of the project.")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    status: int = importlib.import_module("bench.cli").main(list(arguments))
    return status


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and end the process with its exit status (RUN-4)."""
    other, note = hidden_version(__version__), None
    if other is not None:
        note = (
            f"Note: Python runs the checkout {checkout()}, version {__version__}. The installed package has version {other}. "
            "Run it by `stormcell`, or in another folder. If it is an editable install of this checkout: make build."
        )
    commands.run_and_exit(stormcell, arguments, note=note)


def run_command_line(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status. Default of `arguments`: the arguments of the process."""
    return commands.run_program(stormcell, arguments)
