"""The table of forms: each kind of component in the smallest topology that has it, and how a run of it goes."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from engine import (
    FlowControlSpout,
    FlowSettings,
    Inlet,
    Run,
    Topology,
    TopologyBuilder,
    TupleFailed,
)
from engine.transactional import TransactionalTopologyBuilder
from tests.hostile.bolts import (
    Basic,
    Batch,
    Bursts,
    Commits,
    Keeps,
    Plain,
    Records,
    Sink,
    Threads,
    Waits,
    WaitsAtOnce,
    WaitsInTheBackground,
    async_function,
    burst_function,
    function,
)
from tests.hostile.case import FIELDS, RAISES, Case, Value, Verdicts
from tests.hostile.sources import (
    AsyncSource,
    BurstSource,
    ExactSource,
    Producer,
    Source,
    ValueEmitter,
    async_generator,
    exact_generator,
    generator,
    giving_up,
)
from tests.transactional.batch_topologies import Batches


@dataclass(frozen=True)
class Scenario:
    """How the components of a run behave (`Case.act`), and how the run then ends."""

    state: str = "complete"
    config: dict[str, Any] = field(default_factory=dict)
    failed: tuple[int, ...] | None = None
    """The numbers that fail. None: each number has a verdict, whichever it is."""
    restarts: int = 0
    is_reported: bool = True


SCENARIOS: Final = {
    "fails": Scenario(failed=(3, 7)),
    "source raises": Scenario(failed=(3,)),
    "tries again": Scenario(failed=()),
    "diverts": Scenario(failed=()),
    "times out": Scenario(failed=(RAISES,), config={"message_timeout_secs": 2}, is_reported=False),
    "dies": Scenario(config={"on_error": "restart"}, restarts=1),
    "ends": Scenario("failed", is_reported=False),
    "drains": Scenario("drained", config={"drain_timeout_secs": 1}, is_reported=False),
}


@dataclass(frozen=True)
class Form:
    """One form of component, in the smallest topology that has it."""

    build: Callable[[Case, Verdicts, bool], Topology]
    """Gets the case, the verdicts, and whether the bolt runs in a child process."""
    scenarios: tuple[str, ...]
    drive: Callable[[Run, Case, Verdicts], Awaitable[None]] | None = None
    """Works beside the run."""
    in_child: bool = False
    """True if it takes part in the campaign in child processes."""
    hears_acks: bool = True
    repeats: bool = False
    """True if a failed row makes the source emit others again (EO-6)."""


USUAL: Final = ("fails", "dies", "ends")


def rows(source: Any, work: Any, case: Case, verdicts: Verdicts, processes: bool) -> Topology:
    builder = TopologyBuilder("rows")
    is_made = source in (generator, async_generator, giving_up)
    builder.set_spout("source", source(case, verdicts) if is_made else partial(source, case, verdicts))
    builder.set_bolt("work", work, processes=processes).shuffle_grouping("source")
    builder.set_bolt("sink", Sink).shuffle_grouping("work")
    return builder.build()


def tried_again(case: Case, verdicts: Verdicts, processes: bool) -> Topology:
    """Make a topology whose bolt calls again what has raised."""
    builder = TopologyBuilder("tries")
    builder.set_spout("source", partial(Source, case, verdicts))
    builder.set_bolt("work", Basic, processes=processes, retries=2).shuffle_grouping("source")
    builder.set_bolt("sink", Sink).shuffle_grouping("work")
    return builder.build()


def diverted(case: Case, verdicts: Verdicts, processes: bool) -> Topology:
    """Make a topology whose bolt diverts what has failed for good."""
    builder = TopologyBuilder("diverts")
    builder.set_spout("source", partial(Source, case, verdicts))
    builder.set_bolt("work", Basic, processes=processes, on_error="divert").shuffle_grouping("source")
    builder.set_bolt("sink", Sink).shuffle_grouping("work").shuffle_grouping("work", stream="failed")
    return builder.build()


def inlet(case: Case, verdicts: Verdicts, processes: bool) -> Topology:
    builder = TopologyBuilder("calls")
    builder.set_spout("source", lambda: Inlet(FIELDS))
    builder.set_bolt("work", Basic, processes=processes).shuffle_grouping("source")
    return builder.build()


def keyed(case: Case, verdicts: Verdicts, processes: bool, *, source: Any = Source) -> Topology:
    builder = TopologyBuilder("counts")
    builder.set_spout("source", source(case, verdicts) if source is exact_generator else partial(source, case, verdicts))
    builder.set_bolt("work", Keeps, processes=processes).fields_grouping("source", "number")
    return builder.build()


def flow(case: Case, verdicts: Verdicts, processes: bool) -> Topology:
    builder = TopologyBuilder("flowing")
    builder.set_spout("source", lambda: FlowControlSpout(Producer(case, verdicts), FlowSettings(max_retries=0)))
    builder.set_bolt("work", Records, processes=processes).direct_grouping("source")
    return builder.build()


def batches(case: Case, verdicts: Verdicts, processes: bool) -> Topology:
    emitter = type("Emitter", (ValueEmitter,), {"case": case})
    numbers = Batches([[0], [0]], emitter=emitter)
    numbers.output_fields = FIELDS  # type: ignore[assignment]
    builder = TransactionalTopologyBuilder("batches", "source", numbers)
    builder.set_bolt("work", Batch, processes=processes).shuffle_grouping("source")
    builder.set_bolt("commits", partial(Commits, verdicts)).global_grouping("work")
    return builder.build()


async def send_all(run: Run, case: Case, verdicts: Verdicts) -> None:
    handle = run.inlet("source")

    async def send(number: int, value: Value) -> None:
        try:
            await handle.send((number, value))
        except TupleFailed:
            verdicts.failed.append(number)
        else:
            verdicts.acked.append(number)

    sends = [asyncio.ensure_future(send(*row)) for row in case.values()]
    await asyncio.gather(*sends, return_exceptions=True)
    handle.close()


async def drain_later(run: Run, case: Case, verdicts: Verdicts) -> None:
    if case.scenario == "drains":
        await asyncio.sleep(5)
        await run.drain()


def of_bolt(work: Any, *more: str, in_child: bool = False, **how: Any) -> Form:
    return Form(partial(rows, Source, work), (*USUAL, *more), in_child=in_child, **how)


def of_source(source: Any, *more: str, hears_acks: bool = True) -> Form:
    return Form(partial(rows, source, Basic), (*USUAL, *more), hears_acks=hears_acks)


FORMS: Final = {
    "Bolt": of_bolt(Plain, "times out", in_child=True),
    "BasicBolt": of_bolt(Basic, in_child=True),
    "threads": of_bolt(Threads, in_child=True),
    "async": of_bolt(Waits, "drains", drive=drain_later),
    "concurrency": of_bolt(WaitsAtOnce, "drains", drive=drain_later, in_child=True),
    "BurstBolt": of_bolt(Bursts, in_child=True),
    "@bolt": of_bolt(function),
    "async @bolt": of_bolt(async_function),
    "@bolt(burst)": of_bolt(burst_function),
    "background": Form(partial(rows, Source, WaitsInTheBackground), ("dies", "ends")),
    "stateful": Form(keyed, USUAL, in_child=True),
    "retries": Form(tried_again, ("fails", "tries again", "ends"), in_child=True),
    "divert": Form(diverted, ("diverts", "ends"), in_child=True),
    "exact @spout": Form(partial(keyed, source=exact_generator), ("tries again", "ends"), hears_acks=False, repeats=True),
    "exact": Form(partial(keyed, source=ExactSource), ("tries again", "ends")),
    "flow": Form(flow, ("tries again", "ends"), in_child=True, hears_acks=False),
    "batch": Form(batches, ("tries again", "ends"), in_child=True),
    "Spout": of_source(Source, "source raises"),
    "async Spout": of_source(AsyncSource, "source raises"),
    "BurstSpout": of_source(BurstSource, "source raises"),
    "@spout": of_source(generator, hears_acks=False),
    "async @spout": of_source(async_generator, hears_acks=False),
    "@spout gives up": of_source(giving_up, hears_acks=False),
    "Inlet": Form(inlet, ("fails", "ends"), send_all, in_child=True),
}
