"""Calls through stateful bolts: an answer waits for its own checkpoint, which begins at once (SV-8)."""

import asyncio
from pathlib import Path

import pytest

import engine
from engine import Config, Fields, Inlet, Reply, StatefulBasicBolt, Topology, TopologyBuilder, Tuple, TupleFailed
from tests.runtime.stage import loop, play, running

pytestmark = pytest.mark.guarantee("SV-8")


class Count(StatefulBasicBolt):
    output_fields = Fields("word", "count")

    def execute(self, tup: Tuple) -> tuple[str, int]:
        if tup["word"] == "bad":
            raise ValueError("a bad word")
        count = self.state.get(tup["word"], 0) + 1
        self.state.put(tup["word"], count)
        return tup["word"], count


def counting() -> Topology:
    """inlet -> count -> reply."""
    builder = TopologyBuilder("counting")
    builder.set_spout("in", lambda: Inlet("word"))
    builder.set_bolt("count", Count, parallelism=2).fields_grouping("in", "word")
    builder.set_bolt("reply", Reply).shuffle_grouping("count")
    return builder.build()


def test_a_call_does_not_wait_for_the_interval() -> None:
    async def main() -> None:
        async with running(counting(), state_checkpoint_interval_ms=3_000) as run:
            for count in range(1, 11):
                [row] = await run.inlet("in").call(("a",))
                assert row["count"] == count
            assert loop().time() < 0.1
            assert run.snapshot().checkpoint.committed >= 9  # the last one is counted after its acks

    play(main)


def test_waiting_callers_share_a_checkpoint() -> None:
    async def main() -> None:
        async with running(counting(), state_checkpoint_interval_ms=3_000) as run:
            results = await asyncio.gather(*(run.inlet("in").call((f"word{number % 50}",)) for number in range(1000)))
            assert sorted(row["count"] for [row] in results) == [count for count in range(1, 21) for _ in range(50)]
            assert run.snapshot().checkpoint.committed < 20
            assert loop().time() < 0.1

    play(main)


def test_a_failed_call_is_answered_while_others_commit() -> None:
    async def main() -> None:
        async with running(counting(), state_checkpoint_interval_ms=3_000) as run:
            results = await asyncio.gather(*(run.inlet("in").call((word,)) for word in ("a", "bad", "a")), return_exceptions=True)
            assert isinstance(results[1], TupleFailed)
            assert [row["count"] for result in (results[0], results[2]) for row in result] == [1, 2]

    play(main)


def test_a_send_still_waits_for_the_interval() -> None:
    async def main() -> None:
        async with running(counting(), state_checkpoint_interval_ms=3_000) as run:
            sends = [asyncio.create_task(run.inlet("in").send(("a",))) for _ in range(3)]
            await asyncio.sleep(0.05)
            assert not any(send.done() for send in sends)
            [row] = await run.inlet("in").call(("a",))
            assert row["count"] == 4
            await asyncio.gather(*sends)
            assert loop().time() < 0.1

    play(main)


async def test_an_answered_count_survives_in_sqlite(tmp_path: Path) -> None:
    config = Config(state_provider=f"sqlite:///{tmp_path}/counts.db", state_checkpoint_interval_ms=5_000)
    for first in (1, 101):
        async with engine.run(counting(), config) as run:
            results = await asyncio.gather(*(run.inlet("in").call(("a",), timeout=20) for _ in range(100)))
            assert sorted(row["count"] for [row] in results) == list(range(first, first + 100))


@pytest.mark.guarantee("CP-3")
def test_an_interval_of_five_milliseconds() -> None:
    async def main() -> None:
        async with running(counting(), state_checkpoint_interval_ms=5) as run:
            for _ in range(20):
                await run.inlet("in").send(("a",))
            assert loop().time() < 0.3

    play(main)
