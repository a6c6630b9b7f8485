"""A drain that reaches its time limit names the open work."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

from engine import Config, Fields, Run, Spout, StatefulBasicBolt, TopologyBuilder, Tuple, bolt, spout
from engine.testing import Feeder, run_topology


@bolt()
async def stuck(tup: Tuple) -> None:
    await asyncio.Event().wait()


@pytest.mark.guarantee("RUN-3")
@pytest.mark.parametrize(
    ("waits_secs", "left"),
    [
        (1.0, "open trees of 'words': 2, tuples that wait at 'work': 1, unfinished calls of 'work': 1"),
        (60.0, "unfinished calls of 'work': 1"),
    ],
)
def test_a_drain_that_reaches_its_time_limit_names_the_open_work(caplog: pytest.LogCaptureFixture, waits_secs: float, left: str) -> None:
    words, builder = Feeder("word"), TopologyBuilder("drained")
    builder.set_spout("words", words)
    builder.set_bolt("work", stuck).shuffle_grouping("words")
    words.feed_all([("to",), ("be",)][: 2 if waits_secs < 30 else 1])

    async def drain(run: Run) -> None:
        await asyncio.sleep(waits_secs)
        await run.drain(5)

    with caplog.at_level(logging.WARNING):
        finished = run_topology(builder.build(), Config(), during=drain)
    assert finished.state == "drained"
    assert [record.message for record in caplog.records] == [
        f"drain: not finished after 5 s ({left}). Open trees are lost unless their sources replay them"
    ]


@pytest.mark.guarantee("RUN-3")
def test_a_drain_names_a_spout_whose_poll_does_not_return(caplog: pytest.LogCaptureFixture) -> None:
    class Hangs(Spout):
        output_fields = Fields("word")

        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.Event().wait()

    async def drain(run: Run) -> None:
        await asyncio.sleep(1)
        await run.drain(5)

    builder = TopologyBuilder("drained")
    builder.set_spout("words", Hangs)
    builder.set_bolt("work", stuck).shuffle_grouping("words")
    with caplog.at_level(logging.WARNING):
        run_topology(builder.build(), Config(), during=drain)
    text = "drain: not finished after 5 s (unfinished calls of 'words': 1). Open trees are lost unless their sources replay them"
    assert text in [record.message for record in caplog.records]


@pytest.mark.guarantee("RUN-3")
@pytest.mark.parametrize("waits_secs", [0.5, 60.0])
def test_a_drain_during_a_commit_that_does_not_succeed_names_the_commit(caplog: pytest.LogCaptureFixture, waits_secs: float) -> None:
    class Away(StatefulBasicBolt):
        def execute(self, tup: Tuple) -> None:
            self.state.put(tup["word"], 1)

        def pre_commit(self, txid: int) -> None:
            raise ConnectionError

    @spout("word", positions=True)
    def words(after: int | None) -> Iterator[tuple[int, tuple[str]]]:
        yield 1, ("to",)

    async def drain(run: Run) -> None:
        await asyncio.sleep(waits_secs)
        await run.drain(5)

    builder = TopologyBuilder("drained")
    builder.set_spout("words", words)
    builder.set_bolt("count", Away).shuffle_grouping("words")
    with caplog.at_level(logging.WARNING):
        finished = run_topology(builder.build(), during=drain)
    assert finished.state == "drained"
    text = "drain: not finished after 5 s (the last commit is not done). Open trees are lost unless their sources replay them"
    assert text in [record.message for record in caplog.records]
