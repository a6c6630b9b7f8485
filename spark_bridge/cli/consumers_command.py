"""`consumers`: who has to have read a batch before it is deleted. The only thing that removes one."""

import click

ACTIONS = ("list", "add", "remove")


@click.command("consumers", short_help="Who has to have read a batch before it is deleted: list, add, remove.")
@click.argument("folder")
@click.argument("action", type=click.Choice(ACTIONS), default="list", metavar="[add|remove]")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True, help="JSON for programs: one object a line.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
def command(folder: str, action: str, names: tuple[str, ...], *, as_json: bool, is_sure: bool) -> int:
    """List, add or remove the consumers of FOLDER: the names of the queries that have to see each batch.

    \b
      consumers /data/handover
      consumers /data/handover add per-minute
      consumers /data/handover remove per-minute

    What is not committed by all of them is kept, and the engine waits where one falls behind by max_pending_batches. A consumer that is
    added begins with what is not deleted yet. One that is removed is forgotten: what only it had not read may be deleted.
    Those declared on SparkHandover come again when the engine starts.
    """
    from spark_bridge.cli import consumers
    from spark_bridge.cli.on_folder import on_folder

    if action == "list":
        return on_folder(folder, lambda handover: consumers.show(handover, as_json=as_json))
    if not names:
        raise click.UsageError(f"Which consumer? Write `consumers {folder} {action} NAME`.")
    if action == "add":
        return on_folder(folder, lambda handover: consumers.add(handover, names))
    return on_folder(folder, lambda handover: consumers.remove(handover, names, is_sure=is_sure))
