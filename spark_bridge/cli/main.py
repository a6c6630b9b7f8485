"""The command line's entrance: `python -m spark_bridge`."""

from typing import Any, Final

import click

from engine.cli.console import commands
from engine.version import __version__
from spark_bridge.process.errors import SparkMissing

_COMMANDS: Final = {
    name: f"spark_bridge.cli.{name}_command:command" for name in ("run", "check", "look", "consumers", "package", "prepare")
}
_NEEDED: Final = ("pyarrow", "pyspark")
"""Of their absence the packages of the bridge say what to install."""

_HELP: Final = """\
Committed batches of a topology become a pipeline on Spark.

\b
  run        run the queries of a pipeline file over a hand-over folder
  check      say what is wrong with a pipeline file, without running it
  look       what a hand-over folder holds, and how far its consumers are
  consumers  who has to have read a batch before it is deleted: list, add, remove, repair
  package    write the one zip that Spark needs on a cluster of its own
  prepare    have sessions of Spark start in less than half the time, from now on

\b
Try:
  {name} run pipeline.py --folder /data/handover
  {name} look /data/handover
  {name} consumers /data/handover add per-minute
  {name} COMMAND --help

\b
Exit status: 0 stopped or caught up, 1 a query failed for good, 2 the command line, the
pipeline file, the folder or Spark's settings are wrong, 130 stopped by a second signal.
"""


class Program(commands.Program):
    """Without pyarrow or pyspark a command is refused, and says what to install."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if error.name not in _NEEDED:
                raise
            text, _, fix = str(error).partition(". Install it: ")
            raise SparkMissing(text, hint=fix) from error


@click.group(cls=Program, modules=_COMMANDS, text=_HELP, context_settings=commands.CONTEXT_SETTINGS)
@click.version_option(__version__, prog_name="stormcell", message="%(prog)s %(version)s")
def spark_bridge() -> None:
    """Hold the commands."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line, and end the process with its exit status (RUN-4)."""
    commands.run_and_exit(spark_bridge, arguments)


def run_command_line(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status; `arguments` are those of the process by default."""
    return commands.run_program(spark_bridge, arguments)
