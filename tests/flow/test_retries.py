"""Retries in place and diverted records of flow-control bolts (SV-13, SV-14)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from engine import FlowControlBolt, FlowControlSpout, TopologyBuilder
from engine.testing import Capture, run_topology
from tests.flow.flow_topologies import Numbers


class Plan:
    def __init__(self, fails: dict[int, int]) -> None:
        self.fails = Counter(fails)
        self.calls = Counter[int]()

    def hit(self, record: int) -> None:
        self.calls[record] += 1
        if self.fails[record] > 0:
            self.fails[record] -= 1
            raise ValueError(record)


def plain(plan: Plan) -> Any:
    class Plain(FlowControlBolt):
        output_fields = "record"

        def process(self, record: int) -> Iterator[Any]:
            yield (record,)
            plan.hit(record)

    return Plain


def waits(plan: Plan) -> Any:
    class Waits(FlowControlBolt):
        output_fields = "record"

        async def process(self, record: int) -> AsyncIterator[Any]:  # type: ignore[override]
            yield (record,)
            await asyncio.sleep(0.001)
            plan.hit(record)

    return Waits


def awaits(plan: Plan) -> Any:
    class Awaits(FlowControlBolt):
        output_fields = "record"

        async def process(self, record: int) -> Any:
            self.collector.emit((record,))
            await asyncio.sleep(0.001)
            plan.hit(record)

    return Awaits


FORMS = {
    "plain": (plain, {}),
    "async generator": (waits, {}),
    "coroutine": (awaits, {}),
    "concurrency": (awaits, {"concurrency": 2}),
    "threads": (plain, {"threads": 2}),
}


def run(form: str, fails: dict[int, int], **settings: Any) -> tuple[Any, list[Any], list[Any], Plan]:
    plan, producer = Plan(fails), Numbers(300)
    make, own = FORMS[form]
    out, diverted, builder = Capture(), Capture(), TopologyBuilder("flowing")
    builder.set_spout("numbers", lambda: FlowControlSpout(producer))
    builder.set_bolt("work", make(plan), 2, **own, **settings).direct_grouping("numbers")
    builder.set_bolt("out", out).shuffle_grouping("work")
    if settings.get("on_error") == "divert":
        builder.set_bolt("diverted", diverted).shuffle_grouping("work", stream="failed")
    finished = run_topology(builder.build())
    assert finished.snapshot.flow[0].position == "300"
    return finished.snapshot.components["work"], out.values, diverted.values, plan


@pytest.mark.guarantee("SV-13")
@pytest.mark.parametrize("form", FORMS)
def test_a_record_that_fails_at_first_is_emitted_once(form: str) -> None:
    work, out, _, _ = run(form, {5: 1, 120: 2}, retries=3)
    assert sorted(out) == [(record,) for record in range(1, 301)]
    assert (work.failed, work.retries) == (0, 3)


@pytest.mark.guarantee("SV-14")
@pytest.mark.parametrize("form", FORMS)
def test_only_the_guilty_record_of_a_pack_is_diverted(form: str) -> None:
    work, out, diverted, _ = run(form, {5: 10**6, 120: 10**6}, retries=1, on_error="divert")
    assert sorted(out) == [(record,) for record in range(1, 301) if record not in (5, 120)]
    assert sorted(values["records"] for *_, values in diverted) == [(5,), (120,)]
    assert {(component, error, attempts) for component, _, error, attempts, _ in diverted} == {
        ("work", "ValueError: 5", 2),
        ("work", "ValueError: 120", 2),
    }
    assert work.diverted == 2
