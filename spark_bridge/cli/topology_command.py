"""`topology` runs a transactional topology in this terminal, with its processing phase on Spark."""

from pathlib import Path
from typing import Any, Final

import click

from engine.cli import settings
from engine.cli.console.commands import Duration
from engine.cli.console.session import ViewName
from engine.cli.run_session import run_in_terminal
from engine.cli.topology_file import load_topology
from spark_bridge.cli.spark_options import spark_config, spark_options

HELP: Final = """\
Run the transactional topology in FILE, with its processing phase on Spark.

Each batch becomes one Spark job. Committers and all durable state stay in this process, so a topology continues where
`python -m engine run` has stopped, and the reverse.

\b
  topology words.py -c state_provider=sqlite:///words.db                    on all cores of this machine
  topology words.py --master spark://head:7077 --spool /shared/stormcell    on a cluster
  topology words.py --master local[4] --for 5m --json

The executors need this engine and the modules of FILE. A bolt is sent to them with its factory, so keep plain values in
the factory, and open files and connections in prepare().

--spool is a folder that this machine and all executors reach under the same path. Results go through it. Without it,
results of a cluster come back through Spark's driver.

The first Ctrl-C (or SIGTERM) drains: open batches commit. The second stops at once.
"""


@click.command("topology", short_help="Run a topology on Spark.", help=HELP)
@settings.topology_argument
@settings.settings_options
@spark_options
@click.option("--spool", metavar="FOLDER", help="Folder that this machine and all executors reach.")
@click.option("--for", "for_secs", metavar="DURATION", type=Duration(), help="Drain after this time: 500ms, 30s, 5m, 1h.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON lines to standard output, for programs.")
@click.option("--plain", is_flag=True, help="Write plain lines on a terminal too, instead of the live table.")
@click.option("--http", metavar="ADDRESS", help="Serve the page of the run: 8080, 127.0.0.1:8080.")
def command(spec: str, flags: tuple[str, ...], config_file: Path | None, spool: str | None, **chosen: Any) -> int:
    """Run the topology."""
    from spark_bridge.topology.cluster_run import on_spark

    if chosen["as_json"] and chosen["plain"]:
        raise click.UsageError("--json and --plain exclude each other. Choose one.")
    loaded = load_topology(spec)
    config = settings.load_settings(flags, config_file, loaded).config
    topology = on_spark(loaded.topology, spark_config(chosen, "stormcell topology"), spool=spool)
    view: ViewName = "json" if chosen["as_json"] else "plain" if chosen["plain"] else "auto"
    return run_in_terminal(topology, config, view=view, for_secs=chosen["for_secs"], http=chosen["http"]).exit_status
