"""`transactions`: how far transactional topologies are, for a person or a program that looks from outside."""

import click

from engine.cli.on_store import on_store


@click.command("transactions", short_help="How far transactional topologies are.")
@click.argument("url")
@click.option("--topology", metavar="NAME", help="This topology only, with the positions of its partitions.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each topology, with all of its metadata.")
def command(url: str, topology: str | None, *, as_json: bool) -> int:
    """Show what is durable of the transactions of each topology at URL: one line for each, and the positions of one alone.

    URL is the state_provider of the run: sqlite:///counts.db, redis://:password@host:6379/0, zookeeper://host:2181/stormcell.
    Looking takes nothing from a run that goes on, and writes nothing.

    \b
      transactions sqlite:///counts.db
      transactions zookeeper://localhost:2181/stormcell --topology counts
      transactions redis://localhost:6379/0 --json | jq .committed

    \b
    committed  the newest txid that is durably known to be committed
    in doubt   the txid whose commit phase had begun: it may be committed, and the next run says it again
    epoch      how often the topology was started; an attempt is epoch.number
    written    how long ago, by the clock of the process that wrote
    runs       which process runs the topology now, as far as the store can tell
    """
    from engine.cli.transactions_look import show_transactions

    return on_store(url, lambda provider: show_transactions(provider.inventory(), topology, as_json=as_json))
