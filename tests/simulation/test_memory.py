"""A run that is stopped in the middle leaves no objects, even if message ids and values refer to it."""

import asyncio
import gc
import weakref
from functools import partial

import pytest

from engine import Bolt, Inlet, Run, RunEnded, Spout, Topology, TopologyBuilder, Tuple
from engine.testing import run_topology


class Link:
    """Refers to the run."""

    run: Run | None = None


class Linked(Spout):
    """Emits its link as a value, as a message id, or as both."""

    output_fields = "link"

    def __init__(self, link: Link, place: str) -> None:
        self.link, self.place = link, place
        self.left = 10

    def next_tuple(self) -> None:
        if self.left:
            self.left -= 1
            self.collector.emit((None if self.place == "message id" else self.link,), None if self.place == "value" else self.link)


class Stuck(Bolt):
    """Takes one input and never settles it; the others wait."""

    async def execute(self, tup: Tuple) -> None:
        await asyncio.Event().wait()


def collect() -> None:
    """Collect twice: the objects that a cancelled coroutine held, then those that only these held."""
    gc.collect()
    gc.collect()


def stopped(topology: Topology, link: Link) -> "weakref.ref[Run]":
    """Stop a run of this topology after a second."""
    runs: list[weakref.ref[Run]] = []

    async def script(run: Run) -> None:
        runs.append(weakref.ref(run))
        link.run = run
        await asyncio.sleep(1)
        await run.stop()

    run_topology(topology, during=script)
    return runs[0]


@pytest.mark.parametrize("place", ["message id", "value", "both"])
def test_message_ids_and_values_that_refer_to_the_run_do_not_keep_it_alive(place: str) -> None:
    link = Link()
    builder = TopologyBuilder("links")
    builder.set_spout("source", partial(Linked, link, place))
    builder.set_bolt("stuck", Stuck).shuffle_grouping("source")
    run = stopped(builder.build(), link)
    del builder, link
    collect()
    assert run() is None


def test_senders_that_wait_at_an_inlet_do_not_keep_the_run_alive() -> None:
    ended: list[str] = []
    runs: list[weakref.ref[Run]] = []

    async def send(run: Run) -> None:
        try:
            await run.inlet("in").send(("hello",))
        except RunEnded as error:
            ended.append(error.failure.reason)

    async def script(run: Run) -> None:
        runs.append(weakref.ref(run))
        senders = [asyncio.ensure_future(send(run)) for _ in range(5)]
        await asyncio.sleep(1)
        await run.stop()
        await asyncio.gather(*senders)

    builder = TopologyBuilder("inlet")
    builder.set_spout("in", partial(Inlet, "line"))
    builder.set_bolt("stuck", Stuck).shuffle_grouping("in")
    run_topology(builder.build(), during=script)
    del builder
    collect()
    assert ended == ["task_died"] * 5
    assert runs[0]() is None
