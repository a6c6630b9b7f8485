"""Options and help of all commands except `run`. Each command imports its implementation when it runs."""

from pathlib import Path
from typing import Final

import click

from engine.cli.console.output import print_to_stderr, write_line

ACTIONS: Final = ("list", "add", "remove", "repair")


@click.command("check", short_help="Validate a pipeline file without running it.")
@click.argument("spec", metavar="FILE[:NAME]")
def check_command(spec: str) -> int:
    """Import FILE, find its pipeline, and print its kind. Does not start Spark, and does not call the function.

    \b
      check pipeline.py
      check pipeline.py:traffic && deploy

    Spark validates the columns when the pipeline runs: try `run --until-caught-up` with a small folder.
    """
    from spark_bridge.pipeline.definition import load_pipeline

    definition, _ = load_pipeline(spec)
    takes = "a stream and returns writers" if definition.kind == "stream" else "each batch and its txid"
    write_line(f"{spec}: {definition.function.__name__}() is valid: it takes {takes}. A single query is named {definition.name!r}.")
    return 0


@click.command("look", short_help="Show a hand-over folder and the positions of its consumers.")
@click.argument("folder")
@click.option("--txids", "ranges", metavar="FIRST[-LAST]", help="List these transactions, their rows and files: 7, 7-20, 7-.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object, with --txids one per line.")
def look_command(folder: str, ranges: str | None, *, as_json: bool) -> int:
    """Show the writer of FOLDER, the columns, the newest txid, the consumers and the sizes. Writes nothing, and needs no Spark.

    \b
      look /data/handover
      look /data/handover --txids 100-
      look s3://bucket/handover --json

    planned: last txid that a query has begun to read. committed: last txid that it will never read again. Transactions that all consumers
    have committed are deleted. lag: number of transactions that a consumer has not planned. Sizes are sums over the existing manifests.
    """
    from spark_bridge.cli.handover_folder import run_on_folder, show_folder, show_transactions

    if ranges is None:
        return run_on_folder(folder, lambda handover: show_folder(handover, as_json=as_json))
    first, last = _parse_range(ranges)
    return run_on_folder(folder, lambda handover: show_transactions(handover, first, last, as_json=as_json))


def _parse_range(text: str) -> tuple[int, int | None]:
    first, dash, last = text.partition("-")
    if not first.strip().isdecimal() or (last.strip() and not last.strip().isdecimal()):
        raise click.UsageError(f"--txids {text!r} is not a range of transactions. Write 7, 7-20 or 7-.")
    return int(first), int(last) if last.strip() else None if dash else int(first)


@click.command("consumers", short_help="List, add, remove or repair the consumers of a folder.")
@click.argument("folder")
@click.argument("action", type=click.Choice(ACTIONS), default="list", metavar="[add|remove|repair]")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--checkpoint", metavar="PATH", help="For repair: the checkpoint of the query, such as checkpoints/per-minute.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
def consumers_command(folder: str, action: str, names: tuple[str, ...], checkpoint: str | None, *, as_json: bool, is_sure: bool) -> int:
    """List, add, remove or repair the consumers of FOLDER. A consumer has the name of its query.

    \b
      consumers /data/handover
      consumers /data/handover add per-minute
      consumers /data/handover remove per-minute
      consumers /data/handover repair per-minute --checkpoint checkpoints/per-minute

    A batch is kept until all consumers have committed it. If one is max_pending_batches behind, the engine waits. A new consumer
    begins with the oldest kept batch. After remove, batches that only this consumer had not read can be deleted. Consumers that
    SparkHandover declares are added again when the engine starts. The action repair sets a consumer with a damaged file to the
    position of its query's checkpoint. Stop the query first.
    """
    from spark_bridge.cli.handover_folder import add_consumers, remove_consumers, repair_consumer, run_on_folder, show_consumers

    if action == "list":
        return run_on_folder(folder, lambda handover: show_consumers(handover, as_json=as_json))
    if not names:
        raise click.UsageError(f"The name of a consumer is missing. Write `consumers {folder} {action} NAME`.")
    if (action == "repair") != (checkpoint is not None) or (checkpoint is not None and len(names) > 1):
        raise click.UsageError(f"repair takes one name and --checkpoint. Write `consumers {folder} repair {names[0]} --checkpoint PATH`.")
    if checkpoint is not None:
        return run_on_folder(folder, lambda handover: repair_consumer(handover, names[0], checkpoint))
    if action == "add":
        return run_on_folder(folder, lambda handover: add_consumers(handover, names))
    return run_on_folder(folder, lambda handover: remove_consumers(handover, names, is_sure=is_sure))


@click.command("package", short_help="Write the archive that Spark needs on a cluster.")
@click.argument("output", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--engine", "with_engine", is_flag=True, help="Pack the engine, for topologies on Spark.")
@click.option("--extra", "extras", metavar="NAME", multiple=True, help="With --engine: an extra to pack, such as kafka. May be repeated.")
def package_command(output: Path, extras: tuple[str, ...], *, with_engine: bool) -> int:
    """Write OUTPUT, a zip with the code that drivers and executors need to read a hand-over. It needs only pyarrow.

    \b
      package stormcell-spark.zip
      spark-submit --py-files stormcell-spark.zip program.py
      run pipeline.py --folder s3://bucket/handover --master spark://box:7077 --py-files stormcell-spark.zip

    With --engine, write a .tar.gz with the engine of this environment, its compiled part and its dependencies. Executors of a
    topology then need only a Python of the same version, on the same kind of system.

    \b
      package --engine env.tar.gz --extra kafka
      topology words.py --master spark://box:7077 --archives env.tar.gz#environment
    """
    from spark_bridge.process.engine_archive import write_engine_archive
    from spark_bridge.source import package_zip

    if extras and not with_engine:
        raise click.UsageError("--extra belongs to --engine. Write `package --engine env.tar.gz --extra NAME`.")
    try:
        written = write_engine_archive(output, extras) if with_engine else package_zip(output)
        write_line(f"wrote {written}: {output.stat().st_size:,} bytes")
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror}") from error
    return 0


@click.command("prepare", short_help="Build an archive with which sessions start in less than half the time.")
@click.option("--remove", is_flag=True, help="Remove the archive.")
def prepare_command(*, remove: bool) -> int:
    """Build an archive of Spark's classes, which Java maps into its memory. Sessions find it by themselves.

    \b
      prepare             once: about a minute, and 200 MB in the user's cache folder
      prepare --remove

    The archive is valid for this Java, this pyspark and these folders of settings. After an upgrade, sessions ignore it: prepare again.
    """
    from spark_bridge.process.archive_builder import build_archive
    from spark_bridge.process.child.class_archive import archive_path, archives

    if remove:
        existing = archives()
        for path in existing:
            path.unlink(missing_ok=True)
            write_line(f"removed {path}")
        if not existing:
            write_line(f"there is no archive: {archive_path()}")
        return 0
    print_to_stderr("Spark starts once, loads its classes, and stops: about a minute ...")
    built = build_archive()
    write_line(f"wrote {built}: {built.stat().st_size / 1e6:,.0f} MB")
    return 0
