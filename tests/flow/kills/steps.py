"""Steps at which a process dies by kill -9, along the way of a pack and of a position."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from engine.flow.position_keeper import ENTRY
from tests.kills.moments import after, before, in_flight
from tests.kills.steps import Step

# Filters of calls


def is_last(ledger: Any, changes: Mapping[str, Any]) -> bool:
    """Tell whether this writes the last position of a task."""
    return bool(ledger.places.number_of(changes[ENTRY][2]) == ledger.places.count)


def is_no_last(ledger: Any, changes: Mapping[str, Any]) -> bool:
    """Tell whether this writes an earlier position."""
    return not is_last(ledger, changes)


def has_sent(spout: Any) -> bool:
    """Tell whether the spout has sent a pack."""
    return bool(spout.sent)


def moves(spout: Any, *arguments: Any) -> bool:
    """Tell whether an ack has moved the position."""
    return bool(spout._keeper.is_behind)


@dataclass(frozen=True)
class FlowStep(Step):
    """A step, and how often a process reaches it."""

    is_rare: bool = False
    """Reached once, or once per task."""
    is_by_the_clock: bool = False
    """Reached at least once. More often only if the process is slow."""
    is_at_the_end: bool = False
    """Reached only when the run is almost complete."""


_LEDGER: Final = "tests.flow.kills.noting:NotingLedger"
_SPOUT: Final = "tests.flow.kills.numbering:NotingSpout"
_WORK: Final = "tests.flow.kills.numbering:Work"
_PRODUCER: Final = "tests.flow.kills.numbering:Numbers"
_CONTROLLER: Final = "engine.flow.controller:FlowController"

STEPS: Final = {
    step.name: step
    for step in (
        FlowStep("open: before the claim", f"{_LEDGER}.claim", before, is_rare=True),
        FlowStep("open: in the claim", f"{_LEDGER}.claim", in_flight, is_rare=True),
        FlowStep("open: claimed, not read", f"{_LEDGER}.read", before, is_rare=True),
        FlowStep("open: read, nothing pulled", f"{_LEDGER}.read", after, is_rare=True),
        FlowStep("producer: a record pulled, not buffered", f"{_CONTROLLER}.offer_record", before),
        FlowStep("spout: a pack sent", f"{_SPOUT}.next_tuple", after, has_sent),
        FlowStep("work: a pack begun", f"{_WORK}.process", before),
        FlowStep("work: in a pack", f"{_WORK}.passed", after),
        FlowStep("spout: before it counts a task's ack", f"{_SPOUT}._on_task_ack", before),
        FlowStep("spout: before it counts a tree's ack", f"{_SPOUT}.ack", before),
        FlowStep("spout: a pack acked, its position not written", f"{_SPOUT}.ack", after, moves),
        FlowStep("spout: before it handles a failure", f"{_SPOUT}.fail", before),
        FlowStep("spout: a failed pack queued", f"{_SPOUT}.fail", after),
        FlowStep("spout: before it emits a resent pack", f"{_CONTROLLER}.send_pack", after),
        FlowStep("spout: packs called back", f"{_CONTROLLER}._call_back", after, is_rare=True),
        FlowStep("position: before its write", f"{_LEDGER}.write", before, is_no_last, is_by_the_clock=True),
        FlowStep("position: in its write", f"{_LEDGER}.write", in_flight, is_no_last, is_by_the_clock=True),
        FlowStep("position: written, not answered", f"{_LEDGER}.write", after, is_no_last, is_by_the_clock=True),
        FlowStep("position: before the last write", f"{_LEDGER}.write", before, is_last, is_rare=True, is_at_the_end=True),
        FlowStep("position: in the last write", f"{_LEDGER}.write", in_flight, is_last, is_rare=True, is_at_the_end=True),
        FlowStep("position: the last written", f"{_LEDGER}.write", after, is_last, is_rare=True, is_at_the_end=True),
        FlowStep("close: all is done and written", f"{_PRODUCER}.close", before, is_rare=True, is_at_the_end=True),
    )
}
