"""`run`: a pipeline in this terminal until it is stopped, or has caught up."""

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

FILE is a Python file with a function from a stream of all committed rows to writers, `pipeline(stream)`, or one that
is called with each batch of them, `pipeline(batch, txid)`; NAME tells which, where it holds several.

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

Each query (here per-minute) is a consumer of the folder, declared on SparkHandover or by `consumers FOLDER add
per-minute`, and goes on from its checkpoint, CHECKPOINTS/per-minute. What was under way at a crash comes again: exactly
once needs a sink that knows it, as those of spark_bridge.sinks do.

The first Ctrl-C (or SIGTERM) stops after the micro-batch under way, the second at once.
"""


@click.command("run", short_help="Run a pipeline.", help=HELP)
@click.argument("spec", metavar="FILE[:NAME]")
@click.option("--folder", metavar="FOLDER", required=True, help="The hand-over: a path or a URL. It is waited for.")
@click.option("--checkpoints", metavar="FOLDER", help="Where queries note how far they are.  [default: FILE.checkpoints beside the file]")
@click.option(
    "--master", default="local[*]", show_default=True, metavar="URL", help="local[2], spark://host:7077, yarn, k8s://…, sc://host:15002."
)
@click.option("--conf", "conf", metavar="NAME=VALUE", multiple=True, help="A setting of Spark; may be repeated.")
@click.option("--driver-memory", metavar="SIZE", help="Memory of Spark's driver: 512m, 2g.  [default: 1g]")
@click.option("--jars", metavar="PATHS", help="Jars for Spark, with commas between them.")
@click.option("--py-files", metavar="PATHS", help="Python files and zips for the executors, with commas between them.")
@click.option(
    "--option", "options", metavar="NAME=VALUE", multiple=True, help="Of the source: maxTransactionsPerBatch=10; may be repeated."
)
@click.option("--until-caught-up", is_flag=True, help="End when all that is there now is processed.")
@click.option("--until-txid", type=click.IntRange(min=1), metavar="N", help="End when this transaction is processed.")
@click.option("--for", "for_secs", metavar="DURATION", type=Duration(), help="Stop after this time: 500ms, 30s, 5m, 1h.")
@click.option(
    "--stop-timeout",
    "stop_secs",
    metavar="DURATION",
    type=Duration(),
    default="60s",
    show_default=True,
    help="What a micro-batch under way gets.",
)
@click.option("--json", "as_json", is_flag=True, help="JSON lines on standard output, for programs.")
@click.option("--plain", is_flag=True, help="Plain lines on a terminal too, instead of the live table.")
def command(spec: str, folder: str, checkpoints: str | None, **chosen: Any) -> int:
    """Run what was asked for."""
    from spark_bridge.cli.pipeline_session import run_pipeline_in_terminal
    from spark_bridge.cli.pipeline_views import write_refusal

    if chosen["as_json"] and chosen["plain"]:
        raise click.UsageError("--json and --plain are two ways to show the same. Choose one.")
    if chosen["until_caught_up"] and chosen["until_txid"] is not None:
        raise click.UsageError("--until-caught-up and --until-txid are two ends. Choose one.")
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
        checkpoints=checkpoints or _beside(spec),
        spark=spark,
        until="caught up" if chosen["until_caught_up"] else chosen["until_txid"] or "stopped",
        **options,
    )
    return outcome.exit_status


def _spark_config(chosen: Mapping[str, Any]) -> "SparkConfig":
    """Return how Spark is run; raise ConfigError with all that is wrong."""
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


def _beside(spec: str) -> Path:
    head, colon, _ = spec.rpartition(".py:")
    path = Path(head if colon else spec.removesuffix(".py"))
    return path.with_name(f"{path.name}.checkpoints")
