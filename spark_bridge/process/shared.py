"""Shares one child between all tasks of a process with an equal configuration."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

from engine.api import TaskContext
from spark_bridge.process.config import SparkConfig
from spark_bridge.process.spark_child import SparkChild


@dataclass(slots=True, eq=False)
class _SharedChild:
    """A child and the number of its users."""

    child: SparkChild
    users: int = 0


_CHILDREN: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[SparkConfig, _SharedChild]]] = WeakKeyDictionary()
"""By event loop: a child belongs to one loop, and an embedding program may have several."""


@dataclass(frozen=True)
class SharedSpark:
    """A resource (`await self.resources.opened(SharedSpark(config))`). The last task that closes it ends the child."""

    config: SparkConfig

    async def open(self, context: TaskContext) -> "SparkHold":
        """Return a hold of the child of this configuration. The first call starts the child."""
        return hold(self.config)


def hold(config: SparkConfig) -> "SparkHold":
    """Return a hold of the child of this configuration on the running loop. The caller must close it."""
    children = _CHILDREN.setdefault(asyncio.get_running_loop(), {})
    shared = children.get(config)
    if shared is None:
        shared = children[config] = _SharedChild(SparkChild(config))
    shared.users += 1
    return SparkHold(config, shared)


class SparkHold:
    """One user's reference to a shared child."""

    def __init__(self, config: SparkConfig, shared: _SharedChild) -> None:
        self._config = config
        self._shared = shared
        self._closed = False
        self.child = shared.child

    async def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Return `await child.call(...)`."""
        return await self.child.call(function, *arguments, **options)

    async def close(self) -> None:
        """Release the child. The last release ends it."""
        if self._closed:
            return
        self._closed = True
        self._shared.users -= 1
        if self._shared.users == 0:
            children = _CHILDREN[asyncio.get_running_loop()]
            if children.get(self._config) is self._shared:
                del children[self._config]
            await self.child.close()
