"""Where a process dies by kill -9, as data; the product knows nothing of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from engine.flow.position_keeper import ENTRY
from tests.transactional.kills.moments import Moment, after, before, in_flight

# Which calls


def every(*arguments: Any) -> bool:
    """All of them."""
    return True


def is_last(ledger: Any, changes: Mapping[str, Any]) -> bool:
    """The write of the last position of a task."""
    return bool(ledger.places.number_of(changes[ENTRY][2]) == ledger.places.count)


def is_no_last(ledger: Any, changes: Mapping[str, Any]) -> bool:
    """The writes before that."""
    return not is_last(ledger, changes)


def has_sent(spout: Any) -> bool:
    """Calls that sent a pack."""
    return bool(spout.sent)


def moves(spout: Any, *arguments: Any) -> bool:
    """Acks by which there is more to be written."""
    return bool(spout._keeper.is_due)


@dataclass(frozen=True)
class Step:
    """One place to die at."""

    name: str
    target: str
    """`module:Class.method`: the call."""
    moment: Moment
    counts: Callable[..., bool] = every
    """Which calls, by their arguments, the object first."""
    is_rare: bool = False
    """A process comes there once, or for each task once."""
    is_at_the_end: bool = False
    """Only a process that is about to be complete comes there."""


_LEDGER: Final = "tests.flow.kills.noting:NotingLedger"
_SPOUT: Final = "tests.flow.kills.numbering:NotingSpout"
_WORK: Final = "tests.flow.kills.numbering:Work"
_PRODUCER: Final = "tests.flow.kills.numbering:Numbers"
_CONTROLLER: Final = "engine.flow.controller:FlowController"

STEPS: Final = {
    step.name: step
    for step in (
        Step("open: before the claim", f"{_LEDGER}.claim", before, is_rare=True),
        Step("open: in the claim", f"{_LEDGER}.claim", in_flight, is_rare=True),
        Step("open: claimed, not read", f"{_LEDGER}.read", before, is_rare=True),
        Step("open: read, nothing pulled", f"{_LEDGER}.read", after, is_rare=True),
        Step("producer: a record pulled, not offered", f"{_CONTROLLER}.offer", before),
        Step("spout: a pack sent", f"{_SPOUT}.next_tuple", after, has_sent),
        Step("work: a pack begun", f"{_WORK}.process", before),
        Step("work: in a pack", f"{_WORK}.passed", after),
        Step("spout: a pack settled, not taken in", f"{_SPOUT}._settled", before),
        Step("spout: a pack acked, not taken in", f"{_SPOUT}.ack", before),
        Step("spout: a pack acked, its position not written", f"{_SPOUT}.ack", after, moves),
        Step("spout: a pack failed, not taken in", f"{_SPOUT}.fail", before),
        Step("spout: a pack failed, to be sent again", f"{_SPOUT}.fail", after),
        Step("spout: on the way to send a pack again", f"{_CONTROLLER}.send", after),
        Step("spout: packs called back", f"{_CONTROLLER}._call_back", after, is_rare=True),
        Step("position: before its write", f"{_LEDGER}.write", before, is_no_last),
        Step("position: in its write", f"{_LEDGER}.write", in_flight, is_no_last),
        Step("position: written, not answered", f"{_LEDGER}.write", after, is_no_last),
        Step("position: before the last write", f"{_LEDGER}.write", before, is_last, is_rare=True, is_at_the_end=True),
        Step("position: in the last write", f"{_LEDGER}.write", in_flight, is_last, is_rare=True, is_at_the_end=True),
        Step("position: the last written", f"{_LEDGER}.write", after, is_last, is_rare=True, is_at_the_end=True),
        Step("close: all is done and written", f"{_PRODUCER}.close", before, is_rare=True, is_at_the_end=True),
    )
}
