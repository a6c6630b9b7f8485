"""Adds, removes and repairs consumers of a hand-over folder."""

import sys
from collections.abc import Sequence
from typing import Final

import click

from engine.cli.console.formatting import count_text
from engine.cli.console.output import print_to_stderr
from engine.names import did_you_mean
from spark_bridge.cli.look import consumer_fields
from spark_bridge.handover import Handover, Position, TornFile
from spark_bridge.handover.errors import ForeignFile
from spark_bridge.pipeline.errors import PipelineRefused
from spark_bridge.pipeline.offsets import reached_by

DECLINED: Final = 1


def add(handover: Handover, names: Sequence[str]) -> int:
    """Add consumers. Existing ones keep their positions."""
    consumers = [handover.consumer(name) for name in names]
    for consumer in consumers:
        position = consumer.find()
        if position is not None:
            print_to_stderr(f"{consumer.name!r} is a consumer already: it has committed txid {count_text(position.committed)}")
        else:
            consumer.add()
            print_to_stderr(f"{consumer.name!r} is a consumer now, and begins with txid {count_text(handover.deleted() + 1)}")
    return 0


def remove(handover: Handover, names: Sequence[str], *, is_sure: bool) -> int:
    """Remove consumers, after a question that names their unread transactions. Return the exit status."""
    _check_known(handover, names)
    behind = {fields["name"]: fields["lag"] for fields in consumer_fields(handover)}
    unknown = "(its file is damaged: nobody knows how many)"
    told = [f"{name!r} has not read {unknown if behind[name] is None else count_text(behind[name])} transactions" for name in names]
    question = f"{handover.storage.url}: {', '.join(told)}, which may then be deleted. Its query will need a new checkpoint."
    if not is_sure:
        if not sys.stdin.isatty():
            raise click.UsageError(f"{question} There is no terminal to ask on: say --yes.")
        if not click.confirm(f"{question}\nRemove {'it' if len(names) == 1 else 'them'}?", err=True):
            print_to_stderr("nothing was removed")
            return DECLINED
    for name in names:
        handover.consumer(name).remove()
        print_to_stderr(f"{name!r} is no consumer any more")
    return 0


def repair(handover: Handover, name: str, checkpoint: str) -> int:
    """Set a damaged or recreated consumer to the position of its query's checkpoint, and print its next txid."""
    _check_known(handover, [name])
    consumer = handover.consumer(name)
    try:
        position = consumer.read()
    except (TornFile, ForeignFile):
        position = Position()
    if position.planned:
        print_to_stderr(f"{name!r} is in order: it has planned txid {count_text(position.planned)}. Nothing was changed.")
        return 0
    reached, newest, deleted = reached_by(checkpoint), handover.newest(), handover.deleted()
    if not deleted <= reached.txid <= newest:
        raise PipelineRefused(
            f"{checkpoint} has come to txid {reached.txid}, and {handover.storage.url} has those from {deleted + 1} to {newest}",
            hint="A consumer's next txid is never deleted, so these do not belong together: name the checkpoint of this consumer's query.",
        )
    consumer.put(Position(reached.txid, deleted if reached.batch_id or reached.is_done else 0))
    again = (
        "" if reached.is_done else f"takes micro-batch {reached.batch_id}, which ends with txid {count_text(reached.txid)}, again, then "
    )
    print_to_stderr(f"{name!r} {again}goes on with txid {count_text(reached.txid + 1)}, as {checkpoint} says")
    return 0


def _check_known(handover: Handover, names: Sequence[str]) -> None:
    known = handover.consumer_names()
    for name in names:
        if name not in known:
            raise PipelineRefused(f"{name!r} is no consumer of {handover.storage.url}", hint=did_you_mean(name, known))
