"""What `consumers` does."""

import json
import sys
from collections.abc import Sequence
from typing import Final

import click

from engine.cli.figures import count_text
from engine.cli.output import tell
from engine.names import did_you_mean
from spark_bridge.cli.look import consumer_fields, consumer_table
from spark_bridge.handover import Handover
from spark_bridge.pipeline.errors import PipelineRefused

DECLINED: Final = 1


def show(handover: Handover, *, as_json: bool) -> int:
    """Write where each consumer stands."""
    if as_json:
        for fields in consumer_fields(handover):
            click.echo(json.dumps(fields, ensure_ascii=False))
    else:
        click.echo(consumer_table(handover))
    return 0


def add(handover: Handover, names: Sequence[str]) -> int:
    """Have these be consumers; those that are stay where they are."""
    consumers = [handover.consumer(name) for name in names]
    known = handover.consumers()
    for consumer in consumers:
        if consumer.name in known:
            tell(f"{consumer.name!r} is a consumer already: it has committed txid {count_text(known[consumer.name].committed)}")
        else:
            consumer.add()
            tell(f"{consumer.name!r} is a consumer now, and begins with txid {count_text(handover.deleted() + 1)}")
    return 0


def remove(handover: Handover, names: Sequence[str], *, is_sure: bool) -> int:
    """Say what is lost, ask, and forget these consumers; return the exit status."""
    known = handover.consumers()
    for name in names:
        if name not in known:
            raise PipelineRefused(f"{name!r} is no consumer of {handover.storage.url}", hint=did_you_mean(name, known))
    newest = handover.newest()
    told = [f"{name!r} has not read {count_text(newest - known[name].planned)} transactions" for name in names]
    question = f"{handover.storage.url}: {', '.join(told)}, which may then be deleted. Its query will need a new checkpoint."
    if not is_sure:
        if not sys.stdin.isatty():
            raise click.UsageError(f"{question} There is no terminal to ask on: say --yes.")
        if not click.confirm(f"{question}\nRemove {'it' if len(names) == 1 else 'them'}?", err=True):
            tell("nothing was removed")
            return DECLINED
    for name in names:
        handover.consumer(name).remove()
        tell(f"{name!r} is no consumer any more")
    return 0
