"""`look`: what a hand-over folder holds, and how far its consumers are."""

import click


@click.command("look", short_help="What a hand-over folder holds, and how far its consumers are.")
@click.argument("folder")
@click.option("--txids", "ranges", metavar="FIRST[-LAST]", help="List these transactions, their rows and files: 7, 7-20, 7-.")
@click.option("--json", "as_json", is_flag=True, help="JSON for programs: one object, with --txids one a line.")
def command(folder: str, ranges: str | None, *, as_json: bool) -> int:
    """Show who writes FOLDER, the columns, the newest txid, the consumers and what is kept. Nothing is written, and Spark is not needed.

    \b
      look /data/handover
      look /data/handover --txids 100-
      look s3://bucket/handover --json

    planned is up to where a query has begun to read, committed up to where it is done for ever: what all have committed is deleted. lag is
    what a consumer has not planned. Sizes are those of the manifests that are there.
    """
    from spark_bridge.cli.look import run_on_folder, show_folder, show_transactions

    if ranges is None:
        return run_on_folder(folder, lambda handover: show_folder(handover, as_json=as_json))
    first, last = _range(ranges)
    return run_on_folder(folder, lambda handover: show_transactions(handover, first, last, as_json=as_json))


def _range(text: str) -> tuple[int, int | None]:
    first, dash, last = text.partition("-")
    if not first.strip().isdecimal() or (last.strip() and not last.strip().isdecimal()):
        raise click.UsageError(f"--txids {text!r} is no range of transactions. Write 7, 7-20 or 7-.")
    return int(first), int(last) if last.strip() else None if dash else int(first)
