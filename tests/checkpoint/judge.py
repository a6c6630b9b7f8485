"""Checks counts, acks and cuts of a topology after any faults (CP-2, CP-5, CP-10)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

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
