"""A coroutine with context variables of its own."""

import asyncio
from contextvars import ContextVar, copy_context

import pytest

from engine.coroutine_steps import in_context

VALUE: ContextVar[str] = ContextVar("VALUE", default="none")


async def changes(to: str) -> list[str]:
    seen = [VALUE.get()]
    VALUE.set(to)
    await asyncio.sleep(0)
    return [*seen, VALUE.get()]


async def test_variables_stay_inside_and_are_kept() -> None:
    VALUE.set("outer")
    inner = copy_context()
    VALUE.set("later")
    assert await in_context(inner, changes("mine")) == ["outer", "mine"]
    assert VALUE.get() == "later"
    assert inner[VALUE] == "mine"
    assert await in_context(inner, changes("again")) == ["mine", "again"]


async def test_errors_of_both_directions_pass() -> None:
    async def raises() -> None:
        await asyncio.sleep(0)
        raise KeyError(VALUE.get())

    inner = copy_context()
    inner.run(VALUE.set, "inner")
    with pytest.raises(KeyError, match="inner"):
        await in_context(inner, raises())

    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append(VALUE.get())

    async def outer() -> None:
        await in_context(inner, waits())

    waiting = asyncio.create_task(outer())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    closed = outer()
    closed.send(None)
    closed.close()
    assert ended == ["inner", "inner"]
