"""Checks counts, acks, cuts and published rows of a topology after any faults (CP-2, CP-5, CP-10, EO-9)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from engine.checkpoint.stored_positions import owed_name, positions_of
from engine.dead_letters import letters_in
from engine.state.codec import MessagePack
from tests.checkpoint.committer_world import NAME, Target
from tests.checkpoint.model import BarrierModel, Cut
from tests.checkpoint.world import World


def judge_counts(world: World, model: BarrierModel) -> Iterator[str]:
    """At the end every message is acked once, and counted once. A failed one is counted at least once, at most once per emit."""
    sources = {source.name: source for source in world.sources}
    for bolt in world.stateful:
        counted = model.counted(bolt.name)
        if counted != (committed := model.last_cut.counted[bolt.name]):
            yield f"{bolt.name} holds {counted} in the end, and the last cut {committed}"
        for message in world.all_messages:
            source, expected = sources[message.split(":")[0]], world.expected(bolt.name, message)
            if source.rewinds:
                if counted[message] != expected:
                    yield f"{bolt.name} counted {message} of a source that rewinds {counted[message]} times, not {expected}"
                continue
            if message not in source.replayed and counted[message] != expected:
                yield f"{message} never failed, and {bolt.name} counted it {counted[message]} times, not {expected}"
            emitted = source.emitted[message]
            if not expected <= counted[message] <= expected * emitted:
                yield f"{message}, emitted {emitted} times, is counted {counted[message]} times by {bolt.name}, not {expected} each"
    for source in world.sources:
        if source.rewinds:
            if source.committed != world.messages:
                yield f"{source.name} was told the position {source.committed}, and has emitted {world.messages} messages"
        elif source.acked != Counter({f"{source.name}:{number}": 1 for number in range(world.messages)}):
            yield f"{source.name} had acks {source.acked}"


def judge_ack(world: World, last: Cut, message: str) -> Iterator[str]:
    """At the moment of its ack, a message is completely in the last committed cut."""
    for bolt in world.stateful:
        if (count := last.counted[bolt.name][message]) < world.expected(bolt.name, message):
            yield f"{message} is acked, and the cut {last.txid} has it {count} times in {bolt.name}"


def judge_target(world: World, target: Target, entries: Mapping[str, object]) -> Iterator[str]:
    """Unless a commit is under way, the target has exactly the rows whose source row is committed, and that it does not refuse.

    entries: of the ledger. What the target refuses is a dead letter. Of other sources it has at least what is acked.
    """
    counted, letters = target.counted(), refused_rows(entries)
    for source in world.sources:
        committed = _committed_messages(source.name, entries) if source.rewinds else set(source.acked)
        for message in (each for each in world.all_messages if each.startswith(f"{source.name}:")):
            here, elsewhere = (letters, counted) if target.plan.refuses(message) else (counted, letters)
            if elsewhere[message]:
                yield f"{message} is published {counted[message]} times and refused {letters[message]} times, not only one of them"
            expected = target.plan.expected(world, message) * (message in committed)
            if here[message] < expected or (source.rewinds and here[message] > expected):
                yield f"{message} is published or refused {here[message]} times, not {expected}"
            elif here[message] > (most := target.plan.expected(world, message) * source.emitted[message]):
                yield f"{message} is published or refused {here[message]} times, at most {most} were emitted"


def refused_rows(entries: Mapping[str, object]) -> Counter[str]:
    """Return how many dead letters of the committer there are of each message."""
    letters = [letter for letter in letters_in(entries).values() if letter.component_id == NAME]
    return Counter(cast(Any, MessagePack().decode(letter.row.encoded or b""))[1] for letter in letters)


def _committed_messages(source: str, entries: Mapping[str, object]) -> set[str]:
    """Return the messages before the committed position of a source. Owed rows are not committed (EO-6)."""
    stored, codec = positions_of(entries, source, "world"), MessagePack()
    position = stored.positions.get(0, 0) if stored is not None else 0
    owed = {cast(Any, codec.decode(encoded))[1][1] for _, encoded, _ in cast(Any, entries.get(owed_name(source)) or [])}
    return {f"{source}:{number}" for number in range(position)} - owed


def judge_cuts(world: World, cuts: Sequence[Cut]) -> Iterator[str]:
    """Each committed cut is consistent: a bolt has counted exactly the messages that earlier bolts had passed on.

    Only messages that never failed are checked. A failed one may be counted more often in one bolt than in another.
    """
    replayed = {message for source in world.sources for message in source.replayed}
    messages = [message for message in world.all_messages if message not in replayed]
    for cut in cuts:
        for message in messages:
            yield from _judge_flow(world, cut, message)


def _judge_flow(world: World, cut: Cut, message: str) -> Iterable[str]:
    """Fewest and most counts of each bolt: the spout may or may not have emitted the message."""
    came = {source.name: (0, int(message.startswith(f"{source.name}:"))) for source in world.sources}
    for bolt in world.bolts:
        least = sum(came[each][0] * bolt.copies(each) for each in bolt.inputs)
        most = sum(came[each][1] * bolt.copies(each) for each in bolt.inputs)
        if not bolt.keeps:
            came[bolt.name] = (least, most)
            continue
        count = cut.counted[bolt.name][message]
        came[bolt.name] = (count, count)
        if not least <= count <= most:
            yield f"at the cut {cut.txid} {bolt.name} has counted {message} {count} times, and {least} to {most} came by then"
