"""`consumers`: who has to have read a batch before it is deleted. The only thing that removes or repairs one."""

import click

ACTIONS = ("list", "add", "remove", "repair")


@click.command("consumers", short_help="Who has to have read a batch before it is deleted: list, add, remove, repair.")
@click.argument("folder")
@click.argument("action", type=click.Choice(ACTIONS), default="list", metavar="[add|remove|repair]")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--checkpoint", metavar="PATH", help="Of repair: the checkpoint of the query, such as checkpoints/per-minute.")
@click.option("--json", "as_json", is_flag=True, help="JSON for programs: one object a line.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
def command(folder: str, action: str, names: tuple[str, ...], checkpoint: str | None, *, as_json: bool, is_sure: bool) -> int:
    """List, add, remove or repair the consumers of FOLDER: the names of the queries that have to see each batch.

    \b
      consumers /data/handover
      consumers /data/handover add per-minute
      consumers /data/handover remove per-minute
      consumers /data/handover repair per-minute --checkpoint checkpoints/per-minute

    What is not committed by all of them is kept, and the engine waits where one falls behind by max_pending_batches. A consumer that is
    added begins with what is not deleted yet. One that is removed is forgotten: what only it had not read may be deleted.
    Those declared on SparkHandover come again when the engine starts. repair has a consumer whose file is damaged go on where its
    query's checkpoint is, and says with which txid; stop the query before.
    """
    from spark_bridge.cli import consumers
    from spark_bridge.cli.look import run_on_folder, show_consumers

    if action == "list":
        return run_on_folder(folder, lambda handover: show_consumers(handover, as_json=as_json))
    if not names:
        raise click.UsageError(f"No consumer is named. Write `consumers {folder} {action} NAME`.")
    if (action == "repair") != (checkpoint is not None) or (checkpoint is not None and len(names) > 1):
        raise click.UsageError(f"One consumer is repaired by its checkpoint: `consumers {folder} repair {names[0]} --checkpoint PATH`.")
    if checkpoint is not None:
        return run_on_folder(folder, lambda handover: consumers.repair(handover, names[0], checkpoint))
    if action == "add":
        return run_on_folder(folder, lambda handover: consumers.add(handover, names))
    return run_on_folder(folder, lambda handover: consumers.remove(handover, names, is_sure=is_sure))
