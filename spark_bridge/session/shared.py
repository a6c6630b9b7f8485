"""One child for all tasks of a process that ask for an equal configuration."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

from engine.topology import TaskContext
from spark_bridge.session.config import SparkConfig
from spark_bridge.session.spark_child import SparkChild


@dataclass(slots=True, eq=False)
class _Use:
    """A child, and how many have it."""

    child: SparkChild
    users: int = 0


_USES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[SparkConfig, _Use]]] = WeakKeyDictionary()
"""By loop, since a child belongs to one; an embedding host may have several."""


@dataclass(frozen=True)
class SharedSpark:
    """A resource (`await self.resources.opened(SharedSpark(config))`): the last task that closes it ends the child."""

    config: SparkConfig

    async def open(self, context: TaskContext) -> "SparkHold":
        """Return a hold of the child of this configuration. It is started by its first call."""
        return hold(self.config)


def hold(config: SparkConfig) -> "SparkHold":
    """Return a hold of the child of this configuration on the loop that runs; to be closed."""
    uses = _USES.setdefault(asyncio.get_running_loop(), {})
    use = uses.get(config)
    if use is None:
        use = uses[config] = _Use(SparkChild(config))
    use.users += 1
    return SparkHold(config, use)


class SparkHold:
    """One user's hold of a child."""

    def __init__(self, config: SparkConfig, use: _Use) -> None:
        self._config = config
        self._use = use
        self._closed = False
        self.child = use.child

    async def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Return `await child.call(...)`."""
        return await self.child.call(function, *arguments, **options)

    async def close(self) -> None:
        """Let go of it; the last one ends the child."""
        if self._closed:
            return
        self._closed = True
        self._use.users -= 1
        if self._use.users == 0:
            uses = _USES[asyncio.get_running_loop()]
            if uses.get(self._config) is self._use:
                del uses[self._config]
            await self.child.close()
