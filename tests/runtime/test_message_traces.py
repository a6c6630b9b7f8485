"""One message id of a spout is followed to its verdict, and nothing is traced otherwise (SV-10)."""

import asyncio
from typing import Any

import pytest

from engine import Bolt, Fields, Inlet, Run, Spout, TopologyBuilder, Tuple, UsageError
from engine.runtime.message_traces import MOST_EVENTS, MOST_TRACES
from tests.runtime.stage import AtOnce, Endless, Fails, Keeper, Numbers, PassOn, Sink, chain, play, running

pytestmark = pytest.mark.guarantee("SV-10")


class EverySecond(Numbers):
    """Emits a number every second, and takes verdicts meanwhile."""

    def open(self) -> None:
        super().open()
        self.context.create_task(self.work())

    def next_tuple(self) -> None:
        return

    async def work(self) -> None:
        while True:
            await asyncio.sleep(1)
            if self.waiting:
                Numbers.next_tuple(self)


def traced(run: Run) -> list[bool]:
    """Return for each task whether it calls a trace or a watch."""
    assert run._assembly is not None
    return [task.core.is_traced for task in run._assembly.tasks]


def test_a_message_that_is_not_emitted_yet_is_followed_to_its_ack() -> None:
    async def main() -> None:
        async with running(chain(lambda: EverySecond(10), PassOn, Sink)) as run:
            trace = run.trace_message("source", "3")
            assert (trace.component_id, trace.message_id, trace.state) == ("source", "3", "waiting")
            assert "waits until '3' is emitted" in trace.text
            await asyncio.sleep(10)
            assert trace.state == "acked"
            assert trace.text == (
                "opened by source[1] +0.000 s, sent to bolt1[2] +0.000 s, sent to bolt2[3] +0.000 s, acked by bolt1[2] +0.000 s, "
                "acked by bolt2[3] +0.000 s, the tree is acked +0.000 s"
            )
            assert run.message_traces == (trace,)

    play(main)


def test_a_failed_message_ends_with_its_reason() -> None:
    async def main() -> None:
        async with running(chain(lambda: EverySecond(10), Fails)) as run:
            trace = run.trace_message("source", "1")
            await asyncio.sleep(5)
            assert trace.state == "failed"
            assert trace.text.endswith("failed by bolt1[2] +0.000 s, the tree failed (failed): 'bolt1' (task 2) failed it (+0.000 s)")

    play(main)


def test_the_path_of_an_open_tree_begins_now() -> None:
    class Late(Bolt):
        concurrency = 10

        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(5)
            self.collector.ack(tup)

    async def main() -> None:
        async with running(chain(lambda: AtOnce(5), Late)) as run:
            await asyncio.sleep(2)
            trace = run.trace_message("source", "4")
            assert (trace.state, trace.text) == ("open", "already open")
            await asyncio.sleep(5)
            assert trace.text == "already open, acked by bolt1[2] +3.000 s, the tree is acked +3.000 s"

    play(main)


def test_a_message_that_never_comes_expires_after_60_s() -> None:
    async def main() -> None:
        async with running(chain(lambda: EverySecond(1000), Sink)) as run:
            trace = run.trace_message("source", "no such id")
            await asyncio.sleep(59)
            assert trace.state == "waiting"
            await asyncio.sleep(2)
            assert (trace.state, trace.text) == ("expired", "no tree with this message id was opened within 60 s")
            assert not any(traced(run))

    play(main)


def test_tasks_call_a_trace_only_while_it_needs_them() -> None:
    async def main() -> None:
        async with running(chain(lambda: EverySecond(10), Keeper), message_timeout_secs=30) as run:
            assert traced(run) == [False, False]
            trace = run.trace_message("source", "2")
            assert traced(run) == [True, False]  # only the spout looks for the message id
            await asyncio.sleep(4)
            assert trace.state == "open"
            assert traced(run) == [True, True]
            await asyncio.sleep(60)
            assert trace.state == "failed"
            assert "timed out; 'bolt1' (task 2) still owes an ack" in trace.text
            assert traced(run) == [False, False]

    play(main)


def test_traces_and_sampled_trees_do_not_disturb_each_other() -> None:
    async def main() -> None:
        async with running(chain(lambda: EverySecond(10), Keeper), message_timeout_secs=10) as run:
            run.trace(1)
            trace = run.trace_message("source", "0")
            await asyncio.sleep(25)
            assert trace.state == "failed"
            assert trace.text.startswith("opened by source[1] +0.000 s, sent to bolt1[2] +0.000 s, the tree failed (timeout)")
            assert "its path: opened by source[1]" in str(run.snapshot().failures[-1].error)
            assert all(traced(run))
            other = run.trace_message("source", "no such id")
            run.trace(0)
            assert traced(run) == [True, False]
            await asyncio.sleep(61)
            assert (other.state, traced(run)) == ("expired", [False, False])

    play(main)


def test_the_same_message_may_be_traced_twice() -> None:
    async def main() -> None:
        async with running(chain(lambda: EverySecond(10), Sink)) as run:
            traces = [run.trace_message("source", "1") for _ in range(2)]
            await asyncio.sleep(3)
            assert [trace.state for trace in traces] == ["acked", "acked"]
            assert traces[0].text == traces[1].text

    play(main)


def test_a_retry_is_not_followed_after_the_verdict() -> None:
    async def main() -> None:
        async with running(chain(lambda: EverySecond(3, replays=True), Fails)) as run:
            trace = run.trace_message("source", "1")
            await asyncio.sleep(20)
            assert (trace.state, trace.text.count("opened by")) == ("failed", 1)

    play(main)


def test_the_latest_ten_traces_are_kept() -> None:
    async def main() -> None:
        async with running(chain(lambda: Numbers(1), Keeper)) as run:
            await asyncio.sleep(1)
            first = run.trace_message("source", "0")
            others = tuple(run.trace_message("source", f"id {number}") for number in range(MOST_TRACES))
            assert run.message_traces == others
            assert (first.state, first.text.split(" (")[0]) == ("expired", "already open, a newer trace has replaced this one")
            assert traced(run) == [True, False]

    play(main)


def test_a_path_has_a_bounded_number_of_events() -> None:
    class Spreads(Bolt):
        output_fields = Fields("number")

        def execute(self, tup: Tuple) -> None:
            for number in range(10_000):
                self.collector.emit((number,), tup)
            self.collector.ack(tup)

    async def main() -> None:
        async with running(chain(lambda: EverySecond(1), Spreads, Sink)) as run:
            trace = run.trace_message("source", "0")
            await asyncio.sleep(5)
            assert trace.state == "acked"
            assert trace.text.count(",") <= MOST_EVENTS + 10
            assert f"{20_003 - MOST_EVENTS:,} more events, the tree is acked" in trace.text

    play(main)


def test_a_restarted_spout_ends_its_traces() -> None:
    async def main() -> None:
        async with running(chain(lambda: Numbers(2), Keeper)) as run:
            await asyncio.sleep(1)
            trace, waiting = run.trace_message("source", "1"), run.trace_message("source", "7")
            run.restart_task(1)
            await asyncio.sleep(0)
            await asyncio.sleep(0.5)
            assert (trace.state, waiting.state) == ("failed", "waiting")
            assert "its trees were dropped" in trace.text

    play(main)


def test_the_end_of_the_run_ends_its_traces() -> None:
    async def main() -> None:
        async with running(chain(lambda: Numbers(2), Keeper)) as run:
            await asyncio.sleep(1)
            traces = run.trace_message("source", "1"), run.trace_message("source", "7")
        assert [trace.state for trace in traces] == ["failed", "expired"]
        assert run.message_traces == traces
        with pytest.raises(UsageError, match="after the end of the run"):
            run.trace_message("source", "1")

    play(main)


# Message ids


class Emits(Spout):
    """Emits one tuple with each message id, one each second."""

    output_fields = Fields("number")

    def __init__(self, *ids: object) -> None:
        self.ids = list(ids)

    async def next_tuple(self) -> None:  # type: ignore[override]
        await asyncio.sleep(1)
        if self.ids:
            self.collector.emit((1,), self.ids.pop(0))


class Raises:
    def __str__(self) -> str:
        raise SystemExit(3)


class Counts:
    def __init__(self) -> None:
        self.shown = 0

    def __str__(self) -> str:
        self.shown += 1
        return "counts"


@pytest.mark.parametrize(
    ("message_id", "text"),
    [("a17", "a17"), ("a17", "'a17'"), ("it's", '"it\'s"'), (17, "17"), ((1, "a"), "(1, 'a')"), (b"x", "b'x'"), ("", ""), ("'", "'")],
)
def test_the_text_of_a_message_id_finds_it(message_id: object, text: str) -> None:
    async def main() -> None:
        async with running(chain(lambda: Emits(Raises(), message_id), Sink)) as run:
            trace = run.trace_message("source", text)
            await asyncio.sleep(4)
            assert trace.state == "acked"

    play(main)


def test_message_ids_that_cannot_be_shown_are_passed_over() -> None:
    async def main() -> None:
        async with running(chain(lambda: Emits(Raises(), Raises(), 5), Keeper)) as run:
            await asyncio.sleep(5)
            assert run.trace_message("source", "5").state == "open"

    play(main)


def test_no_text_is_made_while_no_trace_waits() -> None:
    ids = [Counts() for _ in range(10)]

    async def main() -> None:
        async with running(chain(lambda: Emits(*ids), Sink)) as run:
            await asyncio.sleep(2.5)
            trace = run.trace_message("source", "counts")
            await asyncio.sleep(20)
            assert trace.state == "acked"
            assert [each.shown for each in ids] == [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]

    play(main)


def test_a_send_of_an_inlet_is_found_by_its_values() -> None:
    builder = TopologyBuilder("inlet")
    builder.set_spout("in", lambda: Inlet("name"))
    builder.set_bolt("sink", Sink).shuffle_grouping("in")

    async def main() -> None:
        async with running(builder.build()) as run:
            trace = run.trace_message("in", "('ada',)")
            await run.inlet("in").send(("ada",))
            assert trace.state == "acked"

    play(main)


def test_many_open_trees_are_searched_in_slices() -> None:
    async def main() -> None:
        async with running(chain(lambda: AtOnce(50_000), Keeper)) as run:
            await asyncio.sleep(1)
            trace = run.trace_message("source", "49999")
            await asyncio.sleep(1)
            assert trace.state == "open"

    play(main)


# Wrong use


def test_wrong_components_and_ids_are_refused() -> None:
    async def main() -> None:
        async with running(chain(Endless, Sink)) as run:
            wrong: list[tuple[Any, Any, str]] = [
                ("sourec", "1", "no spout 'sourec'\nFix: Did you mean 'source'"),
                ("bolt1", "1", "no spout 'bolt1'"),
                (None, "1", "no spout None"),
                (["source"], "1", "no spout"),
                ("source", 1, "the message id as a string, not 1"),
            ]
            for component_id, message_id, text in wrong:
                with pytest.raises(UsageError, match=text):
                    run.trace_message(component_id, message_id)
            assert run.message_traces == ()
        async with running(chain(Endless, Sink), acker_executors=0) as run:
            with pytest.raises(UsageError, match="needs ackers"):
                run.trace_message("source", "1")

    play(main)
