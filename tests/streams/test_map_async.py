"""`map_async`: many calls at once, in the order of the rows or as they end."""

import asyncio
from typing import Any

import pytest

from engine.streams import Failed, Flow
from tests.streams.flows import run, texts_of

TEXTS = [str(number) for number in range(40)]


async def slow_even(text: str) -> int:
    await asyncio.sleep(0.5 if int(text) % 2 == 0 else 0.01)
    return int(text)


@pytest.mark.guarantee("TF-6")
@pytest.mark.parametrize("seed", range(5))
def test_results_come_in_the_order_of_the_rows(seed: int) -> None:
    flow, seen = Flow("ordered"), list[int]()
    texts, feeder = texts_of(flow, *TEXTS)
    texts.map_async(slow_even, concurrency=10, name="slow").sink("seen", seen.append)
    finished = run(flow, seed=seed, shuffle=True)
    assert seen == [int(text) for text in TEXTS]
    assert len(feeder.acked) == len(TEXTS)
    assert finished.secs < 5  # not 10 s, as one after the other


def test_unordered_results_come_as_soon_as_they_are_there() -> None:
    flow, seen = Flow("unordered"), list[int]()
    texts, _ = texts_of(flow, *TEXTS)
    texts.map_async(slow_even, concurrency=10, ordered=False).sink("seen", seen.append)
    run(flow)
    assert sorted(seen) == [int(text) for text in TEXTS]
    assert seen[:5] == [1, 3, 5, 7, 9]


@pytest.mark.guarantee("TF-6")
@pytest.mark.parametrize("seed", range(3))
def test_a_row_that_is_tried_again_keeps_its_place(seed: int) -> None:
    tries = dict.fromkeys(TEXTS, 0)

    async def flaky(text: str) -> int:
        tries[text] += 1
        await asyncio.sleep(0.01)
        if int(text) % 7 == 3 and tries[text] < 3:
            raise ConnectionError("again")
        return int(text)

    flow, seen = Flow("flaky"), list[int]()
    texts, feeder = texts_of(flow, *TEXTS)
    texts.map_async(flaky, concurrency=8, retries=3).sink("seen", seen.append)
    run(flow, seed=seed, shuffle=True)
    assert seen == [int(text) for text in TEXTS]
    assert feeder.failed == []


@pytest.mark.guarantee("TF-6")
def test_a_row_that_fails_for_good_lets_the_others_pass() -> None:
    class Geo:
        context: Any
        ended = 0

        async def prepare(self) -> None:
            self.name = self.context.component_id

        async def __call__(self, text: str) -> str:
            await asyncio.sleep(0.1 if text == "1" else 0.01)
            if text == "1":
                raise ValueError("no country")
            return f"{self.name} {text}"

        async def cleanup(self) -> None:
            type(self).ended += 1

    flow, seen, bad = Flow("failing"), list[str](), list[Failed[str]]()
    texts, _ = texts_of(flow, "0", "1", "2", "3")
    stage = texts.map_async(Geo, concurrency=4, retries=1, on_error="divert", name="geo")
    stage.sink("seen", seen.append)
    stage.failed.sink("bad", bad.append)
    run(flow)
    assert seen == ["geo 0", "geo 2", "geo 3"]
    assert bad == [Failed("1", "ValueError: no country", 2, "geo")]
    assert Geo.ended == 1
