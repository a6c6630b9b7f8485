"""`run` runs a pipeline in this terminal until it is stopped or has caught up."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from engine.cli.console.commands import Duration
from engine.cli.console.session import ViewName
from engine.errors import ConfigError, EngineError

if TYPE_CHECKING:
    from spark_bridge.cli.pipeline_session import TerminalOptions
    from spark_bridge.process import SparkConfig

HELP: Final = """\
Run the pipeline in FILE over a hand-over folder, on Spark, until Ctrl-C.

FILE is a Python file with a function. `pipeline(stream)` takes a stream of all committed rows and returns writers.
`pipeline(batch, txid)` is called with each batch of rows. NAME chooses one function of several.

\b
  run pipeline.py --folder /data/handover            on all cores of this machine
  run pipeline.py:traffic --folder /data/handover    one of several
  run pipeline.py --folder /data/handover --until-caught-up
  run pipeline.py --folder s3://bucket/handover --checkpoints s3://bucket/checkpoints \\
      --master spark://box:7077 --conf spark.executor.memory=4g
  run pipeline.py --folder /data/handover --json | jq .event

A pipeline file:

\b
  from pyspark.sql.functions import window
  def pipeline(stream):                  # the rows' own columns, txid and batch_time
      counts = stream.withWatermark("time", "10 minutes").groupBy(window("time", "1 minute")).count()
      return {"per-minute": counts.writeStream.format("parquet").option("path", "out")}

Each query (here per-minute) is a consumer of the folder. Declare it on SparkHandover, or with `consumers FOLDER add
per-minute`. It continues from its checkpoint, CHECKPOINTS/per-minute. An unfinished micro-batch is repeated after a
crash, so exactly once needs a sink that detects repeats, such as those of spark_bridge.sinks.

The first Ctrl-C (or SIGTERM) stops after the current micro-batch, the second at once.
"""


@click.command("run", short_help="Run a pipeline.", help=HELP)
@click.argument("spec", metavar="FILE[:NAME]")
@click.option("--folder", metavar="FOLDER", required=True, help="The hand-over, a path or a URL. Waits until it exists.")
@click.option("--checkpoints", metavar="FOLDER", help="Folder for the checkpoints.  [default: FILE.checkpoints beside the file]")
@click.option(
    "--master",
    default="local[*]",
    show_default=True,
    metavar="URL",
    help="Spark to use: local[2], spark://host:7077, yarn, k8s://…, sc://host:15002.",
)
@click.option("--conf", "conf", metavar="NAME=VALUE", multiple=True, help="A setting of Spark. May be repeated.")
@click.option("--driver-memory", metavar="SIZE", help="Memory of Spark's driver: 512m, 2g.  [default: 1g]")
@click.option("--jars", metavar="PATHS", help="Jars for Spark, separated by commas.")
@click.option("--py-files", metavar="PATHS", help="Python files and zips for the executors, separated by commas.")
@click.option(
    "--option",
    "options",
    metavar="NAME=VALUE",
    multiple=True,
    help="An option of the source: maxTransactionsPerBatch=10. May be repeated.",
)
@click.option("--until-caught-up", is_flag=True, help="End when all current transactions are processed.")
@click.option("--until-txid", type=click.IntRange(min=1), metavar="N", help="End when this transaction is processed.")
@click.option("--for", "for_secs", metavar="DURATION", type=Duration(), help="Stop after this time: 500ms, 30s, 5m, 1h.")
@click.option(
    "--stop-timeout",
    "stop_secs",
    metavar="DURATION",
    type=Duration(),
    default="60s",
    show_default=True,
    help="Time for the current micro-batches to finish.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines on standard output.")
@click.option("--plain", is_flag=True, help="Print plain lines on a terminal too, instead of the live table.")
def command(spec: str, folder: str, checkpoints: str | None, **chosen: Any) -> int:
    """Run the pipeline."""
    from spark_bridge.cli.pipeline_session import run_pipeline_in_terminal
    from spark_bridge.cli.pipeline_views import write_refusal

    if chosen["as_json"] and chosen["plain"]:
        raise click.UsageError("--json and --plain exclude each other. Choose one.")
    if chosen["until_caught_up"] and chosen["until_txid"] is not None:
        raise click.UsageError("--until-caught-up and --until-txid exclude each other. Choose one.")
    view: ViewName = "json" if chosen["as_json"] else "plain" if chosen["plain"] else "auto"
    try:
        spark, source = _spark_config(chosen), _pairs(chosen["options"], "--option")
    except EngineError as error:
        if chosen["as_json"]:
            write_refusal(error)
        raise
    options: TerminalOptions = {"view": view, "stop_secs": chosen["stop_secs"], "source": source}
    if chosen["for_secs"] is not None:
        options["for_secs"] = chosen["for_secs"]
    outcome = run_pipeline_in_terminal(
        spec,
        folder,
        checkpoints=checkpoints or _default_checkpoints(spec),
        spark=spark,
        until="caught up" if chosen["until_caught_up"] else chosen["until_txid"] or "stopped",
        **options,
    )
    return outcome.exit_status


def _spark_config(chosen: Mapping[str, Any]) -> "SparkConfig":
    """Return the configuration of Spark. Raise ConfigError with all faults."""
    from spark_bridge.process import SparkConfig

    return SparkConfig(
        master=chosen["master"],
        app_name="stormcell pipeline",
        driver_memory=chosen["driver_memory"],
        conf=_pairs(chosen["conf"], "--conf"),
        jars=_paths(chosen["jars"]),
        py_files=_paths(chosen["py_files"]),
    )


def _pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    faults = [f"{option} {name!r} has no value. Write {option} NAME=VALUE." for name, equals, _ in pairs if not equals]
    if faults:
        raise ConfigError(faults, headline="command line")
    return {name.strip(): value for name, _, value in pairs}


def _paths(text: str | None) -> tuple[str, ...]:
    return tuple(path for path in (text or "").split(",") if path)


def _default_checkpoints(spec: str) -> Path:
    head, colon, _ = spec.rpartition(".py:")
    path = Path(head if colon else spec.removesuffix(".py"))
    return path.with_name(f"{path.name}.checkpoints")
