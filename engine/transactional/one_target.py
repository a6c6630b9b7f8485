"""Keeps a ready-made committer at one target, such as a map or a table, in all batches of a task (TX-8)."""

from dataclasses import dataclass, field
from typing import Any

from engine.api import TaskContext
from engine.errors import FatalError
from engine.transactional.batch_bolt import BatchBolt, Resource


async def opened_for_all_batches(bolt: BatchBolt, target: Resource[Any], what: str) -> Any:
    """Open the target of a committer. Raises FatalError if an earlier batch of the task had another one. what: its name in the error."""
    first = await bolt.resources.opened(_First(target))
    if first.target != target:
        component = bolt.context.component_id
        text = f"{component!r} was given another {what} for batch {bolt.attempt}: {target} is not the {what} of the earlier batches"
        raise FatalError(text, hint=f"Make the {what} once, outside of the factory that makes the committers.")
    return await bolt.resources.opened(target)


@dataclass(frozen=True)
class _First:
    """The target of a task's first batch. All instances are equal, so that a later batch finds the first one."""

    target: Any = field(compare=False)

    async def open(self, context: TaskContext) -> "_First":
        return self

    async def close(self) -> None:
        """Do nothing, because the target itself is another resource."""
