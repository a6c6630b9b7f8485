"""Process with one committer task, which dies by kill -9 at a named step of its second transaction.

python -m tests.kafka.transactional.killed BROKERS TOPIC NAME STEP
"""

import asyncio
import os
import signal
import sys
from typing import Any, Final

from tests.kafka.transactional.committer_task import committer_config, committing

STEPS: Final = tuple(
    f"{when} {what}" for what in ("begin_transaction", "send_batch", "store_offset", "commit_transaction") for when in ("before", "after")
)
"""Steps at which the process may die. Only the last one is certain to leave a committed transaction."""


def die_at(link: Any, step: str) -> None:
    """Have the process die around a method of its link."""
    when, _, method = step.partition(" ")
    original = getattr(link, method)

    async def deadly(*arguments: Any) -> None:
        if when == "after":
            await original(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(link, method, deadly)


async def main(brokers: str, topic: str, name: str, step: str) -> None:
    """Commit one transaction, and die in the next one."""
    async with committing(committer_config(brokers, topic), name=name) as task:
        await task.commit(1, "a")
        bolt = await task.instance(2, [(None, "b"), (None, "c")])
        die_at(task.writer.link, step)
        await bolt.finish_batch()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
