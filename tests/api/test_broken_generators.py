"""Any exception of a generator breaks its spout once (ACK-13)."""

import asyncio

import pytest

from engine.api import GeneratorBroken, spout
from tests.api.test_generator_spout import open_spout

pytestmark = pytest.mark.guarantee("ACK-13")


class Ends(BaseException):
    """Exception of a user that is no `Exception`."""


@pytest.mark.parametrize("error", [Ends("odd"), asyncio.CancelledError(), BaseExceptionGroup("all", [Ends("odd")])])
def test_any_exception_of_a_generator_breaks_it(error: BaseException) -> None:
    @spout("number")
    def raising():
        yield (1,)
        raise error

    driver = open_spout(raising)
    driver.poll()
    with pytest.raises(GeneratorBroken):
        driver.poll()
    assert not driver.poll()
    assert driver.collector.values == [(1,)]


@pytest.mark.parametrize("error", [Ends("odd"), asyncio.CancelledError(), BaseExceptionGroup("all", [Ends("odd")])])
async def test_any_exception_of_an_async_generator_breaks_it(error: BaseException) -> None:
    @spout("number")
    async def raising():
        yield (1,)
        raise error

    driver = open_spout(raising)
    with pytest.raises(GeneratorBroken):
        await driver.poll_and_wait()
    assert driver.collector.values == [(1,)]
