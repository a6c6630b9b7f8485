"""The victim of `test_kills`: two tasks write batches into a map, and the process kills itself at a step."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final

from engine.state.values import ValueStore
from engine.transactional import TransactionAttempt
from engine.transactional.values import OpenValues, values_at
from tests.transactional.values.faults import Fault, FaultyStore
from tests.transactional.values.tasks import add, context

TASKS: Final = 2
KEYS: Final = 30
TXIDS: Final = 3
"""Number of transactions of one victim."""


def batch_of(txid: int, epoch: int, kind: str) -> dict[str, int]:
    """Return the batch of an attempt. An opaque source gives another one in each epoch."""
    random = Random(f"{txid} {epoch if kind == 'opaque' else 0}")
    return {f"key {number}": random.randint(1, 9) for number in random.sample(range(KEYS), KEYS // 2)}


def key_of(name: str) -> tuple[str, int]:
    """Return a key of two fields."""
    return name, int(name[4:])


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Death:
    """Kills the process when a step of one txid is reached for the n-th time."""

    def __init__(self, step: str, nth: int, txid: int) -> None:
        self.step, self.left, self.txid = step, nth, txid
        self.now = 0

    def comes(self, step: str) -> bool:
        if step == self.step and self.now == self.txid:
            self.left -= 1
        return step == self.step and not self.left

    def fault_of(self, call: str) -> Fault:
        if self.comes(f"before {call}"):
            die()
        return "none"


class Dying(FaultyStore):
    """Dies before or after a call."""

    def __init__(self, below: ValueStore, death: Death) -> None:
        super().__init__(below, death.fault_of, [])
        self._death = death

    async def _do(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        done = await super()._do(name, call)
        if self._death.comes(f"behind {name}"):
            die()
        return done


def die_inside(place: str, death: Death) -> None:
    """Die inside a step of the database: in a transaction, between two scripts, or during a statement."""
    if place == "sqlite":
        from engine.state.sqlite import values as sqlite

        sqlite.ROWS_PER_STATEMENT = 3  # type: ignore[misc]
        insertion = sqlite.insertion

        def dying_insertion(*args: Any) -> str:
            if death.comes("inside write"):
                die()
            return insertion(*args)

        sqlite.insertion = dying_insertion  # type: ignore[assignment]
    elif place == "redis":
        from engine.state.redis import values as redis

        redis.KEYS_PER_PART = 3  # type: ignore[misc]
        run = redis.RedisLink.run

        async def dying_run(link: Any, script: Any, *args: Any) -> Any:
            if death.comes({redis.WRITE: "inside write", redis.UNDO_PART: "inside undo"}.get(script, "")):
                die()
            return await run(link, script, *args)

        redis.RedisLink.run = dying_run  # type: ignore[method-assign]
    else:
        from engine.state.postgres import values as postgres

        fetch = postgres.PostgresLink.fetch

        async def dying_fetch(link: Any, statement: str, *args: Any) -> Any:
            if not statement.startswith("WITH") or not death.comes("inside write"):
                return await fetch(link, statement, *args)
            sent = asyncio.ensure_future(fetch(link, statement, *args))
            await asyncio.wait([sent], timeout=0.002)
            die()

        postgres.PostgresLink.fetch = dying_fetch  # type: ignore[method-assign]


async def run(url: str, kind: Any, first: int, epoch: int, step: str, nth: int, fields: list[str]) -> None:
    death = Death(step, nth, first if "undo" in step or "create" in step else first + TXIDS - 1)
    die_inside(url.partition(":")[0].removesuffix("ql"), death)
    stores = [await values_at(url, "words").store(make=True) for _ in range(TASKS)]
    tasks: list[OpenValues[Any, int]] = [
        OpenValues(Dying(store, death), context(task_index=index, tasks=TASKS), "the map") for index, store in enumerate(stores)
    ]
    for txid in range(first, first + TXIDS):
        death.now = txid
        batch = batch_of(txid, epoch, kind)
        for index, task in enumerate(tasks):
            share = {key: amount for key, amount in batch.items() if int(key[4:]) % TASKS == index}
            changes: Any = {key_of(key): amount for key, amount in share.items()} if fields else share
            await task.update(TransactionAttempt(txid, epoch * 2**32 + txid), changes, add, kind=kind, key_fields=fields)
        print(txid, flush=True)
    for store in stores:
        await store.close()


if __name__ == "__main__":
    asyncio.run(run(*json.loads(sys.argv[1])))
