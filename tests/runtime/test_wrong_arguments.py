"""Wrong arguments raise a UsageError with the place and the fix, never a bare TypeError."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import engine
from engine import Failure, Run, UsageError
from engine.testing import run_topology, run_topology_async
from tests.runtime.stage import Endless, Numbers, Sink, chain, play, running

TOPOLOGY = chain(lambda: Numbers(1), Sink)


@pytest.mark.parametrize("start", [engine.run, Run, run_topology], ids=["run", "Run", "run_topology"])
@pytest.mark.parametrize("config", [{"burst": 64}, {}, 5, "x"])
def test_a_wrong_config_is_refused(start: Callable[..., object], config: Any) -> None:
    with pytest.raises(UsageError, match=r"needs a Config, not .*\nFix: Write Config\(burst=64\)"):
        start(TOPOLOGY, config)


@pytest.mark.parametrize("start", [engine.run, Run, run_topology], ids=["run", "Run", "run_topology"])
@pytest.mark.parametrize("topology", [None, 5, "chain"])
def test_a_wrong_topology_is_refused(start: Callable[..., object], topology: Any) -> None:
    with pytest.raises(UsageError, match=r"needs a topology, not .*\nFix: Pass what TopologyBuilder\.build\(\) returned"):
        start(topology)


@pytest.mark.parametrize("faults", [5, [5], ["count"]])
def test_wrong_faults_are_refused(faults: Any) -> None:
    with pytest.raises(UsageError, match="KillTask"):
        run_topology(TOPOLOGY, faults=faults)


def test_wrong_arguments_of_async_tests_are_refused() -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="run_topology_async"):
            await run_topology_async(TOPOLOGY, 5)  # type: ignore[arg-type]

    play(main)


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda run: run.inlet(5), "no inlet 5"),
        (lambda run: run.inlet(["in"]), "no inlet"),
        (lambda run: run.task_ids(5), "no component 5"),
        (lambda run: run.task_ids(["in"]), "no component"),
        (lambda run: run.trace("x"), "a share of trees from 0 to 1, not 'x'"),
        (lambda run: run.trace(None), "a share of trees from 0 to 1, not None"),
    ],
)
def test_wrong_arguments_of_run_methods_are_refused(ask: Callable[[Run], object], why: str) -> None:
    async def main() -> None:
        async with running(chain(Endless, Sink)) as run:
            with pytest.raises(UsageError) as caught:
                ask(run)
            assert why in str(caught.value)
            assert caught.value.hint

    play(main)


@pytest.mark.parametrize("timeout_secs", ["x", -1, float("nan"), float("inf"), [], True])
def test_a_wrong_time_limit_of_a_drain_is_refused(timeout_secs: Any) -> None:
    async def main() -> None:
        async with running(chain(Endless, Sink)) as run:
            with pytest.raises(UsageError, match="a number of seconds of at least 0"):
                await run.drain(timeout_secs)
            assert run.state == "running"

    play(main)


@pytest.mark.parametrize(
    ("do", "why"),
    [
        (lambda bolt: bolt.context.task_ids(5), "bolt 'bolt1' asked for the tasks of 5"),
        (lambda bolt: bolt.context.task_ids(["source"]), "asked for the tasks of ['source']"),
        (lambda bolt: bolt.context.targets(["default"]), "bolt 'bolt1' has no stream ['default']"),
        (lambda bolt: bolt.context.create_task(5), "bolt 'bolt1' called create_task(5), which is not a coroutine"),
        (lambda bolt: bolt.context.create_task(asyncio.sleep), "which is not a coroutine"),
        (lambda bolt: bolt.context.counter("seen").add("x"), "a counter cannot add 'x'"),
        (lambda bolt: bolt.context.gauge("seen").set("5"), "a gauge cannot be set to '5'"),
        (lambda bolt: bolt.context.gauge("seen").set(None), "a gauge cannot be set to None"),
        (lambda bolt: bolt.context.histogram("seen").record("x"), "a histogram cannot record 'x'"),
        (lambda bolt: bolt.context.gauge("lag", partition=3), "gauge 'lag': the label 'partition' must be a string, not 3"),
        (lambda bolt: bolt.context.drop_metric(bolt.context.gauge("lag")), "needs the name of a metric, not"),
        (lambda bolt: bolt.collector.report_error(1), "'bolt1' (task 2): report_error() was given 1, which is not an exception"),
        (lambda bolt: bolt.collector.report_error(ValueError), "which is not an exception"),
    ],
)
def test_wrong_arguments_of_a_component_are_refused(do: Callable[[Any], object], why: str) -> None:
    caught: list[UsageError] = []

    class Does(Sink):
        def prepare(self) -> None:
            try:
                do(self)
            except UsageError as error:
                caught.append(error)

    async def main() -> None:
        async with running(chain(Endless, Does)) as run:
            assert not run.snapshot().errors

    play(main)
    assert why in str(caught[0])
    assert caught[0].hint


@pytest.mark.parametrize("reason", ["zork", None, 5, []])
def test_a_failure_with_an_unknown_reason_is_refused(reason: Any) -> None:
    with pytest.raises(UsageError, match="is not a reason of a Failure\nFix: The reasons are 'failed', 'error'"):
        Failure(reason)
