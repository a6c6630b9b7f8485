"""The running virtual loop and its time, for tests of the loop."""

import asyncio

from engine.testing.virtual_loop import VirtualTimeLoop


def loop_of_this_test() -> VirtualTimeLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop


def now() -> float:
    return asyncio.get_running_loop().time()
