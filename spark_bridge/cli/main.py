"""The program `python -m spark_bridge` and its list of commands."""

from typing import Any, Final

import click

from engine.cli.console import commands
from engine.cli.console.user_file import INSTALL_IT
from engine.version import __version__
from spark_bridge.process.errors import SparkMissing

_COMMANDS: Final = {
    "run": "spark_bridge.cli.run_command:command",
    "topology": "spark_bridge.cli.topology_command:command",
    **{name: f"spark_bridge.cli.commands:{name}_command" for name in ("check", "look", "consumers", "package", "prepare")},
}
_NEEDED: Final = ("pyarrow", "pyspark")
"""If one of these packages is missing, the bridge names the extra to install."""

_HELP: Final = """\
Run a pipeline on Spark over the committed batches of a topology.

\b
  run        run the queries of a pipeline file over a hand-over folder
  topology   run a transactional topology with its processing phase on Spark
  check      validate a pipeline file without running it
  look       show a hand-over folder and the positions of its consumers
  consumers  list, add, remove or repair the consumers of a folder
  package    write the archive that Spark needs on a cluster
  prepare    build an archive with which sessions start in less than half the time

\b
Try:
  {name} run pipeline.py --folder /data/handover
  {name} look /data/handover
  {name} consumers /data/handover add per-minute
  {name} COMMAND --help

\b
Exit status: 0 stopped or caught up, 1 a query failed, 2 the command line, the pipeline
file, the folder or Spark's settings are wrong, 3 stopped before it had caught up, if
--until-caught-up or --until-txid asked for that, 130 stopped by a second signal.
"""


class Program(commands.Program):
    """Top-level command. Turns a missing pyarrow or pyspark into an error with the extra to install."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if error.name not in _NEEDED:
                raise
            text, _, fix = str(error).partition(INSTALL_IT)
            raise SparkMissing(text, hint=fix) from error


@click.group(cls=Program, modules=_COMMANDS, text=_HELP, context_settings=commands.CONTEXT_SETTINGS)
@click.version_option(__version__, prog_name="stormcell", message="%(prog)s %(version)s")
def spark_bridge() -> None:
    """Group the commands."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and end the process with its exit status (RUN-4)."""
    commands.run_and_exit(spark_bridge, arguments)


def run_command_line(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status. Without `arguments`, the arguments of the process are used."""
    return commands.run_program(spark_bridge, arguments)
