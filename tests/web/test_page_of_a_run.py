"""The page of a real run, served by `engine.web` in a thread of its own (WEB-1, WEB-2)."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import pytest
from selenium.webdriver.common.keys import Keys

import engine
from engine import Config, Run, Topology, TopologyBuilder, bolt, spout
from engine.web import serve
from tests.patience import PATIENCE_SECS
from tests.web.browser import OpenPage

TOKEN: Final = "a-token-for-a-real-run"
MARKUP: Final = "<img src=x onerror=alert(1)>"


@spout("number", restartable=True, max_retries=0, on_give_up=lambda values, failure: None)
async def numbers() -> AsyncIterator[tuple[int]]:
    for number in range(1_000_000):
        yield (number,)
        await asyncio.sleep(0.005)


@bolt("number", on_error="restart")
def fragile(tup: Any) -> tuple[int]:
    if tup["number"] % 50 == 20:
        raise ValueError(MARKUP)
    return (tup["number"],)


@bolt()
def store(tup: Any) -> None:
    pass


def topology() -> Topology:
    builder = TopologyBuilder(f"numbers {MARKUP}")
    builder.set_spout("numbers", numbers)
    builder.set_bolt("fragile", fragile).shuffle_grouping("numbers")
    builder.set_bolt(MARKUP, store).shuffle_grouping("fragile")
    return builder.build()


class RealRun:
    """A run with its server, on a loop in another thread."""

    def __init__(self) -> None:
        self.url = ""
        self.run: Run | None = None
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._play()), name="a real run")
        self._loop: asyncio.AbstractEventLoop | None = None

    async def _play(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.run = engine.run(topology(), Config(max_task_restarts=1_000))
        try:
            async with serve(self.run, "127.0.0.1:0", token=TOKEN) as serving, self.run:
                self.url = serving.url
                self._is_up.set()
                await self.run.completed()
        finally:
            self._is_up.set()

    def __enter__(self) -> "RealRun":
        self._thread.start()
        assert self._is_up.wait(PATIENCE_SECS)
        return self

    def __exit__(self, *error: object) -> None:
        assert self.run is not None
        assert self._loop is not None
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self.run.stop(), self._loop).result(PATIENCE_SECS)
        self._thread.join(PATIENCE_SECS)
        assert not self._thread.is_alive()


@pytest.fixture
def real_run() -> Iterator[RealRun]:
    """A run that goes on until the test ends it."""
    with RealRun() as started:
        yield started


@pytest.mark.guarantee("WEB-2")
def test_rates_move_and_a_killed_task_appears_with_its_traceback(real_run: RealRun, open_url: Callable[..., OpenPage]) -> None:
    page = open_url(real_run.url)
    first = page.wait(lambda: page.text("#uptime"))
    page.wait(lambda: page.text("#uptime") != first)
    page.wait(lambda: any(text.endswith("/s") and text != "0/s" for text in page.texts(".box-rate")))
    page.wait(lambda: page.texts(".errors .entry .error"))
    assert page.texts(".errors .entry .error")[0] == f"ValueError: {MARKUP}"
    page.click(".errors .entry summary")
    assert "in fragile\n    raise ValueError(MARKUP)" in page.text(".errors .entry .traceback")
    assert "<Tuple (" in page.text(".errors .entry pre")
    assert any("the task is replaced by a fresh instance" in text for text in page.texts(".errors .entry p"))
    page.wait(lambda: "error" in page.text("[aria-label='Failures by reason and component']"))
    assert page.text("#topology") == f"numbers {MARKUP}"
    assert MARKUP in page.texts(".box-name")
    assert page.script("return document.querySelectorAll('img, [onerror]').length") == 0


@pytest.mark.guarantee("WEB-1")
def test_a_drain_by_button_ends_the_run_with_the_token_alone(real_run: RealRun, open_url: Callable[..., OpenPage]) -> None:
    page = open_url(real_run.url)
    page.click("[data-action=drain]")
    assert "needs the token" in page.element("#token-why").text
    page.element("#token-field").send_keys("wrong", Keys.ENTER)
    page.allowed = ("401",)
    page.click("#confirm-yes")
    page.wait(lambda: "the token is wrong" in page.text("#messages"))
    assert real_run.run is not None
    assert real_run.run.state == "running"
    page.click("[data-action=drain]")
    page.element("#token-field").send_keys(TOKEN, Keys.ENTER)
    page.click("#confirm-yes")
    page.wait(lambda: page.text("#state") == "drained")
    assert page.element("#banner").text.startswith("The run has ended: drained")
    assert real_run.run.state == "drained"
