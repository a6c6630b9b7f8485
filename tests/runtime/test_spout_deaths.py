"""Spouts that raise (ACK-12)."""

import asyncio
from typing import Any

import pytest

from engine import Bolt, Config, Spout, Tuple
from engine.api import Fields
from tests.runtime.dying import ends_with_component_error
from tests.runtime.stage import FailsTwo, Numbers, Sink, chain, play_run

pytestmark = pytest.mark.guarantee("ACK-12")


@pytest.mark.parametrize("method", ["next_tuple", "ack", "fail", "async next_tuple"])
def test_with_restart_a_spout_that_raises_gets_a_new_instance(method: str) -> None:
    instances: list[Numbers] = []

    class Raises(Numbers):
        def __init__(self) -> None:
            super().__init__(5)
            instances.append(self)

        def boom(self, where: str) -> None:
            if where == method and len(instances) == 1 and len(self.waiting) < 4:
                raise ValueError(where)

        def next_tuple(self) -> None:
            super().next_tuple()
            self.boom("next_tuple")

        def ack(self, message_id: Any) -> None:
            self.boom("ack")
            super().ack(message_id)

        def fail(self, message_id: Any) -> None:
            super().fail(message_id)
            self.boom("fail")

        def close(self) -> None:
            self.closed = True

    class AsyncRaises(Raises):
        async def next_tuple(self) -> None:  # type: ignore[override]
            Numbers.next_tuple(self)
            await asyncio.sleep(0.01)
            self.boom("async next_tuple")

    run = play_run(chain(AsyncRaises if method.startswith("async") else Raises, FailsTwo), Config(on_error="restart"))
    assert len(instances) == 2
    assert sorted(instances[1].acked + instances[1].failed) == [0, 1, 2, 3, 4]
    assert all(hasattr(spout, "closed") for spout in instances)
    assert run.state == "complete"


@pytest.mark.parametrize("method", ["next_tuple", "ack", "fail"])
def test_by_default_a_spout_that_raises_continues(method: str) -> None:
    class Raises(Numbers):
        def next_tuple(self) -> None:
            super().next_tuple()
            if method == "next_tuple":
                raise ValueError(method)

        def ack(self, message_id: Any) -> None:
            super().ack(message_id)
            if method == "ack":
                raise ValueError(method)

        def fail(self, message_id: Any) -> None:
            super().fail(message_id)
            if method == "fail":
                raise ValueError(method)

    spout = Raises(5)
    run = play_run(chain(lambda: spout, FailsTwo))
    assert sorted(spout.acked + spout.failed) == [0, 1, 2, 3, 4]
    assert spout.context.failure is None
    assert run.snapshot().components["source"].errors >= 1


def test_with_restart_a_spout_that_always_raises_ends_the_run() -> None:
    class Raises(Spout):
        output_fields = Fields("number")

        def next_tuple(self) -> None:
            raise OSError("gone")

    error = ends_with_component_error(chain(Raises, Sink), Config(on_error="restart"))
    assert error.component_id == "source"
    assert isinstance(error.error, OSError)


@pytest.mark.parametrize("ackers", [0, 1])
@pytest.mark.parametrize("method", ["ack", "async ack", "fail"])
def test_with_restart_a_spout_that_dies_of_each_verdict_ends_the_run(method: str, ackers: int) -> None:
    """The settle of the current tree does not count as progress of the dead instance."""

    class Raises(Spout):
        output_fields = Fields("number")

        def next_tuple(self) -> None:
            self.collector.emit((1,), 1)

        def ack(self, message_id: Any) -> None:
            raise OSError("gone")

        def fail(self, message_id: Any) -> None:
            raise OSError("gone")

    class AsyncRaises(Raises):
        async def ack(self, message_id: Any) -> None:  # type: ignore[override]
            raise OSError("gone")

    class Settle(Bolt):
        def execute(self, tup: Tuple) -> None:
            (self.collector.fail if method == "fail" else self.collector.ack)(tup)

    if method == "fail" and ackers == 0:
        return
    topology = chain(AsyncRaises if method == "async ack" else Raises, Settle)
    error = ends_with_component_error(topology, Config(acker_executors=ackers, max_spout_pending=5, on_error="restart"))
    assert error.component_id == "source"
    assert isinstance(error.error, OSError)
