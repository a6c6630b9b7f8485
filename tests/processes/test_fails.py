"""`fail` takes a text or an exception, in every form of bolt, in the run and in a child process (ACK-16, BU-1, PR-1)."""

import asyncio
from functools import partial
from typing import Any

import pytest

from engine import Bolt, Burst, BurstBolt, Spout, TopologyBuilder, Tuple
from engine.testing import Capture, Feeder, Finished, run_topology


class Fails(Bolt):
    """Fails each input."""

    output_fields = "number"

    def __init__(self, error: Any) -> None:
        self.error = error

    def execute(self, tup: Tuple) -> None:
        self.collector.fail(tup, error=self.error)


class FailsLater(Fails):
    """Fails each input in the background."""

    def execute(self, tup: Tuple) -> None:
        self.context.create_task(self._fail(tup))

    async def _fail(self, tup: Tuple) -> None:
        await asyncio.sleep(0.01)
        self.collector.fail(tup, self.error)


class FailsOfBurst(BurstBolt):
    """Fails each input of a burst."""

    output_fields = "number"

    def __init__(self, error: Any) -> None:
        self.error = error

    def execute_many(self, burst: Burst) -> None:
        for tup in burst:
            burst.fail(tup, self.error)


FORMS = pytest.mark.parametrize("bolt", [Fails, FailsLater, FailsOfBurst])
SETTINGS = pytest.mark.parametrize(
    "settings", [{}, {"retries": 2}, {"processes": True}, {"processes": True, "retries": 2}], ids=lambda settings: "+".join(settings)
)


def played(spout: Any, bolt: Any, until: float | None = None, **settings: Any) -> tuple[Finished, Capture]:
    """Run a bolt that fails everything. Return what it has diverted, too."""
    diverted, builder = Capture(), TopologyBuilder("fails")
    builder.set_spout("numbers", spout)
    builder.set_bolt("bolt", bolt, **settings).shuffle_grouping("numbers")
    if "on_error" in settings:
        builder.set_bolt("diverted", diverted).shuffle_grouping("bolt", stream="failed")
    return run_topology(builder.build(), until=until), diverted


@pytest.mark.guarantee("ACK-16", "BU-1", "PR-1")
@FORMS
@SETTINGS
@pytest.mark.parametrize(("error", "text"), [("why", "why"), (KeyError("word"), "KeyError: 'word'")])
def test_the_spout_gets_the_text(bolt: Any, settings: Any, error: Any, text: str) -> None:
    feeder = Feeder("number")
    feeder.feed_all((number,) for number in range(3))
    feeder.close()
    finished, _ = played(feeder, partial(bolt, error), **settings)
    assert [(failure.reason, failure.error) for _, failure in feeder.failed] == [("failed", text)] * 3
    assert not finished.errors


@pytest.mark.guarantee("SV-14")
@FORMS
@pytest.mark.parametrize("processes", [False, True])
def test_a_diverted_input_has_the_text(bolt: Any, processes: bool) -> None:
    feeder = Feeder("number")
    feeder.feed((7,))
    feeder.close()
    _, diverted = played(feeder, partial(bolt, KeyError("word")), processes=processes, on_error="divert")
    assert [error for _, _, error, _, _ in diverted.values] == ["KeyError: 'word'"]


class Untracked(Spout):
    """Emits three rows that nobody tracks."""

    output_fields = "number"

    def open(self) -> None:
        self.left = 3

    def next_tuple(self) -> None:
        if self.left:
            self.left -= 1
            self.collector.emit((self.left,))


@pytest.mark.guarantee("ACK-16")
@FORMS
@SETTINGS
def test_an_untracked_input_fails_alike(bolt: Any, settings: Any) -> None:
    """A child process is different: the run acks its untracked inputs as soon as they are sent."""
    finished, _ = played(Untracked, partial(bolt, KeyError("word")), until=1.0, **settings)
    task = finished.snapshot.components["bolt"].tasks[0]
    assert (task.executed, task.failed) == (3, 0 if "processes" in settings else 3)
    assert not finished.errors


@pytest.mark.guarantee("ACK-16")
@FORMS
def test_anything_else_is_an_error_of_the_call(bolt: Any) -> None:
    feeder = Feeder("number")
    feeder.feed((7,))
    feeder.close()
    finished, _ = played(feeder, partial(bolt, 7))
    assert any("error must be a text or an exception, not 7" in error.text for error in finished.errors)
