"""Retries in place and diverted inputs of bolts in child processes (SV-13, SV-14)."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import Config, FlowControlSpout, TopologyBuilder, spout
from engine.testing import Capture, Feeder, run_topology
from tests.flow.flow_topologies import Numbers
from tests.processes import bolts, retried_bolts
from tests.processes.test_deaths import until

RESULT = [(number, part) for number in range(10) if number != 5 for part in ("begin", "end")]


def diverting(bolt: Any, feeder: Feeder, **settings: Any) -> tuple[Capture, Capture, Any]:
    """Return what a bolt in a process emits and diverts, and its topology."""
    out, diverted, builder = Capture(), Capture(), TopologyBuilder("retried")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("work", bolt, processes=True, on_error="divert", **settings).shuffle_grouping("numbers")
    builder.set_bolt("out", out).shuffle_grouping("work")
    builder.set_bolt("diverted", diverted).shuffle_grouping("work", stream="failed")
    return out, diverted, builder.build()


@pytest.mark.guarantee("SV-13", "SV-14", "PR-1")
@pytest.mark.parametrize(
    ("bolt", "settings"),
    [
        (retried_bolts.Plain, {}),
        (retried_bolts.Explicit, {}),
        (retried_bolts.Waits, {}),
        (retried_bolts.Waits, {"concurrency": 4}),
        (retried_bolts.Plain, {"threads": 2}),
        (retried_bolts.Many, {}),
        (retried_bolts.Keeps, {}),
    ],
    ids=["plain", "explicit", "async", "concurrency", "threads", "burst", "stateful"],
)
def test_failed_tries_leave_nothing_behind_in_a_process(bolt: Any, settings: Any) -> None:
    feeder = Feeder("number")
    out, diverted, topology = diverting(bolt, feeder, retries=2, **settings)
    feeder.feed_all((number,) for number in range(10))
    feeder.close()
    work = run_topology(topology).snapshot.components["work"]
    assert sorted(out.values) == RESULT
    assert [(component, error, attempts, values) for component, _, error, attempts, values in diverted.values] == [
        ("work", "ValueError: 5", 3, {"number": 5})
    ]
    assert (len(feeder.acked), feeder.failed) == (10, [])
    assert work.diverted == 1
    assert work.retries in ((4,) if bolt is not retried_bolts.Many else (2, 3, 4))


@pytest.mark.guarantee("SV-13", "SV-14", "PR-1")
def test_records_of_flow_control_in_a_process() -> None:
    producer, out, diverted, builder = Numbers(40), Capture(), Capture(), TopologyBuilder("flowing")
    builder.set_spout("numbers", lambda: FlowControlSpout(producer))
    work = builder.set_bolt("work", retried_bolts.Records, processes=True, retries=2, on_error="divert")
    work.direct_grouping("numbers")
    builder.set_bolt("out", out).shuffle_grouping("work")
    builder.set_bolt("diverted", diverted).shuffle_grouping("work", stream="failed")
    run_topology(builder.build())
    assert sorted(out.values) == [(number, part) for number in range(1, 41) if number != 5 for part in ("begin", "end")]
    assert [values["records"] for *_, values in diverted.values] == [(5,)]


@pytest.mark.guarantee("SV-13", "PR-2")
def test_an_input_whose_process_is_killed_between_two_tries_fails_and_is_replayed(tmp_path: Path) -> None:
    @spout("number", max_retries=5)
    def numbers() -> Any:
        yield from ((number,) for number in range(5))

    out, builder = Capture(), TopologyBuilder("killed")
    builder.set_spout("numbers", numbers)
    builder.set_bolt("work", partial(retried_bolts.KillsOnce, tmp_path / "mark"), processes=True, retries=100).shuffle_grouping("numbers")
    builder.set_bolt("out", out).shuffle_grouping("work")

    async def main() -> Any:
        async with asyncio.timeout(60), engine.run(builder.build()) as run:
            await run.completed()
            return run.snapshot()

    snapshot = asyncio.run(main())
    assert {number for (number,) in out.values} == set(range(5))
    assert (snapshot.components["work"].restarts, snapshot.components["numbers"].acked) == (1, 5)
    assert snapshot.components["work"].retries >= 1


@pytest.mark.guarantee("SV-13", "ACK-8", "PR-3")
@pytest.mark.parametrize("settings", [{}, {"concurrency": 2}], ids=["in order", "at once"])
def test_an_input_that_waits_in_a_process_does_not_time_out(settings: dict[str, Any]) -> None:
    feeder = Feeder("number")
    _, diverted, topology = diverting(retried_bolts.Waits, feeder, retries=4, **settings)
    feeder.feed((5,))
    feeder.close()
    run_topology(topology, Config(message_timeout_secs=1))
    assert feeder.failed == []
    assert [attempts for _, _, _, attempts, _ in diverted.values] == [5]


@pytest.mark.guarantee("SV-14", "PR-1")
def test_a_value_that_cannot_go_to_the_process_is_diverted() -> None:
    feeder = Feeder("number")
    out, diverted, topology = diverting(retried_bolts.Unloadable, feeder)
    feeder.feed_all([(1,), (bolts.Unpicklable(),), (3,)])
    feeder.close()
    run_topology(topology)
    assert sorted(out.values) == [(1,), (3,)]
    [(_, _, error, attempts, values)] = diverted.values
    assert "cannot be pickled" in error
    assert (attempts, type(values["number"])) == (1, bolts.Unpicklable)
    assert (len(feeder.acked), feeder.failed) == (3, [])


@pytest.mark.guarantee("SV-13", "RUN-3")
@pytest.mark.parametrize("settings", [{}, {"concurrency": 2}], ids=["in order", "at once"])
def test_a_stop_does_not_wait_for_a_try_in_a_process(settings: dict[str, Any]) -> None:
    feeder = Feeder("number")
    _, _, topology = diverting(retried_bolts.Waits, feeder, retries=100, **settings)
    feeder.feed((5,))

    async def main() -> float:
        async with asyncio.timeout(60), engine.run(topology) as run:
            await until(lambda: run.snapshot().components["work"].retries >= 5)
            began = asyncio.get_running_loop().time()
            await run.stop()
            return asyncio.get_running_loop().time() - began

    assert asyncio.run(main()) < 3  # a pause takes 1.6 s at least, and the next ones longer; a child that hangs is killed after 3 s
