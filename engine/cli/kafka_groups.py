"""Implements `kafka lag`, `kafka offsets` and `kafka reset`."""

import asyncio
import sys
from collections.abc import Collection, Sequence
from typing import Any, Final

import click

from engine.cli.console.commands import DECLINED, confirm
from engine.cli.console.formatting import NONE, aligned, count_text, name_text, plural
from engine.cli.console.output import print_to_stderr, write_line
from engine.cli.console.timestamps import timestamp_ms
from engine.errors import FatalError
from engine.json_text import json_text
from engine.kafka.client.admin_client import AdminClient, Member
from engine.kafka.source.acked_set import count
from engine.kafka.source.group_offsets import (
    GroupOffsets,
    OffsetReset,
    PartitionOffsets,
    ResetTarget,
    commit_reset,
    describe_group,
    plan_reset,
)

LAG_COLUMNS: Final = ("topic", "partition", "topology", "client", "member", "host", "committed", "end", "lag", "acked")
LAG_TEXT_COLUMNS: Final = 6
OFFSET_COLUMNS: Final = ("topic", "partition", "written by", "beginning", "committed", "end", "acked", "runs")
OFFSET_TEXT_COLUMNS: Final = 3
RESET_COLUMNS: Final = ("partition", "committed", "will be")
FOREIGN: Final = "another program"
_MEMBER_CHARACTERS: Final = 8


async def show_lag(link: AdminClient, group: str, topics: Collection[str], watch_secs: float | None, *, as_json: bool) -> None:
    """Write the lag of a group. With `watch_secs` repeat forever."""
    _write_lag(await describe_group(link, group, topics), as_json=as_json, clears=False)
    while watch_secs is not None:
        await asyncio.sleep(watch_secs)
        try:
            found = await describe_group(link, group, topics)
        except FatalError as error:  # a broker may restart, and the watch must continue after that
            print_to_stderr(f"{error.message}. Next attempt in {watch_secs:g} s.")
        else:
            _write_lag(found, as_json=as_json, clears=sys.stdout.isatty())


def _write_lag(found: GroupOffsets, *, as_json: bool, clears: bool) -> None:
    if as_json:
        write_line(json_text(group_fields(found)))
        return
    rows = [LAG_COLUMNS, *map(_lag_row, found.partitions)]
    acked = sum(count(one.acked_runs) for one in found.partitions)
    rows.append(("total", *[""] * (LAG_TEXT_COLUMNS + 1), count_text(found.lag), count_text(acked)))
    if clears:
        click.clear()
    _write_table(found, rows, LAG_TEXT_COLUMNS)


async def show_offsets(link: AdminClient, group: str, topics: Collection[str], *, as_json: bool) -> None:
    """Write the commits of a group with their metadata."""
    found = await describe_group(link, group, topics)
    if as_json:
        write_line(json_text(group_fields(found)))
        return
    _write_table(found, [OFFSET_COLUMNS, *map(_offset_row, found.partitions)], OFFSET_TEXT_COLUMNS)


def _write_table(found: GroupOffsets, rows: Sequence[Sequence[str]], text_columns: int) -> None:
    members = found.group.members
    write_line(f"group {found.group.name!r}: {found.state}, {plural(len(members), 'member')}\n\n{aligned(rows, text_columns=text_columns)}")
    for one in found.partitions:
        if one.trouble is not None:
            write_line(f"{one.partition}: committed {count_text(one.committed)}: {one.trouble}")


def group_fields(found: GroupOffsets) -> dict[str, Any]:
    """Return a group as plain values."""
    return {
        "group": found.group.name,
        "state": found.state,
        "members": len(found.group.members),
        "lag": found.lag,
        "partitions": [_partition_fields(one) for one in found.partitions],
    }


def _partition_fields(one: PartitionOffsets) -> dict[str, Any]:
    owner = one.owner
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "committed": one.committed,
        "beginning": one.beginning,
        "end": one.end,
        "lag": one.lag,
        "topology": one.topology,
        "acked": count(one.acked_runs),
        "acked_runs": [list(one.acked_runs[at : at + 2]) for at in range(0, len(one.acked_runs), 2)],
        "foreign_metadata": one.metadata if one.is_foreign else None,
        "trouble": one.trouble,
        "client_id": owner and owner.client_id,
        "member_id": owner and owner.member_id,
        "host": owner and owner.host,
    }


def _lag_row(one: PartitionOffsets) -> tuple[str, ...]:
    owner = one.owner
    return (
        *_first_cells(one),
        NONE if owner is None else name_text(owner.client_id),
        NONE if owner is None else name_text(_short_id(owner)),
        NONE if owner is None else name_text(owner.host),
        count_text(one.committed),
        count_text(one.end),
        count_text(one.lag),
        NONE if one.committed is None else count_text(count(one.acked_runs)),
    )


def _offset_row(one: PartitionOffsets) -> tuple[str, ...]:
    is_known = one.committed is not None and not one.is_foreign
    return (
        *_first_cells(one),
        count_text(one.beginning),
        count_text(one.committed),
        count_text(one.end),
        count_text(count(one.acked_runs)) if is_known else NONE,
        count_text(len(one.acked_runs) // 2) if is_known else NONE,
    )


def _first_cells(one: PartitionOffsets) -> tuple[str, str, str]:
    topology = FOREIGN if one.is_foreign else NONE if one.topology is None else name_text(one.topology)
    return one.partition.topic, str(one.partition.partition), topology


def _short_id(member: Member) -> str:
    """Return the part of a member id that the broker generated, shortened."""
    return member.member_id.removeprefix(f"{member.client_id}-")[:_MEMBER_CHARACTERS]


async def reset_offsets(link: AdminClient, group: str, *, topic: str, partitions: Collection[int], target: str, is_sure: bool) -> int:
    """Show the new offsets, ask, and commit them. Return the exit status."""
    resets = await plan_reset(link, group, topic, partitions, reset_target(target))
    question = f"group {group!r}:\n{_reset_table(resets)}"
    if not is_sure and not confirm(question, "Commit these offsets?"):
        print_to_stderr("nothing was committed")
        return DECLINED
    await commit_reset(link, group, resets)
    write_line(question if is_sure else f"group {group!r} is reset")
    return 0


def reset_target(text: str) -> ResetTarget:
    """Parse the target of a reset.

    >>> reset_target("latest"), reset_target("42"), reset_target("1970-01-01T00:00:01Z")
    ('latest', 42, ('timestamp', 1000))
    """
    if text == "earliest" or text == "latest":
        return text  # type: ignore[return-value]
    if text.isdecimal():
        return int(text)
    found = timestamp_ms(text)
    if found is None:
        text = f"--to {text!r} is not a valid target. Write earliest, latest, an offset, or a time such as 2026-01-31T12:00Z."
        raise click.UsageError(text)
    return "timestamp", found


def _reset_table(resets: Sequence[OffsetReset]) -> str:
    rows = [(str(one.partition), count_text(one.before), count_text(one.after.offset)) for one in resets]
    return aligned([RESET_COLUMNS, *rows])
