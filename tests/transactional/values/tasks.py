"""Shared parts of the tests of values: tasks without an engine, and short forms of attempts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from engine.api import TaskContext
from engine.config import Config
from engine.transactional import TransactionAttempt
from engine.transactional.values import OpenValues, ValueMap


@dataclass
class Task:
    """Part of a TaskContext that a map uses."""

    component_id: str = "count"
    task_index: int = 0
    tasks: int = 1
    topology_name: str = "words"
    config: Config = field(default_factory=lambda: Config(state_timeout_secs=5.0))


def context(**place: Any) -> TaskContext:
    return cast(TaskContext, Task(**place))


@asynccontextmanager
async def open_values(values: ValueMap, **place: Any) -> AsyncIterator[OpenValues[Any, Any]]:
    found = await values.open(context(**place))
    try:
        yield found
    finally:
        await found.close()


async def read_values(values: ValueMap) -> dict[Any, Any]:
    """Return all rows that a reader finds."""
    async with values.reader() as reader:
        return {key: value async for key, value in reader.items()}


def attempt(txid: int, attempt_id: int) -> TransactionAttempt:
    return TransactionAttempt(txid, attempt_id)


def add(stored: int | None, partial: int) -> int:
    return (stored or 0) + partial


def newest(stored: int | None, partial: int | None) -> int | None:
    return partial
