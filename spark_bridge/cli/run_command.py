"""`run` runs a pipeline in this terminal until it is stopped or has caught up."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from engine.cli.console.commands import Duration
from engine.cli.console.session import ViewName
from engine.errors import EngineError
from spark_bridge.cli.spark_options import pairs_of, spark_config, spark_options

if TYPE_CHECKING:
    from spark_bridge.cli.pipeline_session import TerminalOptions

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
@spark_options
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
        spark, source = spark_config(chosen, "stormcell pipeline"), pairs_of(chosen["options"], "--option")
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


def _default_checkpoints(spec: str) -> Path:
    head, colon, _ = spec.rpartition(".py:")
    path = Path(head if colon else spec.removesuffix(".py"))
    return path.with_name(f"{path.name}.checkpoints")
