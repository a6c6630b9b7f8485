"""Stateful bolts of the tests, in a module that a child process can import."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from engine import (
    Burst,
    Fields,
    KeyValueState,
    StatefulBasicBolt,
    StatefulBolt,
    StatefulBurstBolt,
    Tuple,
    stateful_bolt,
)


class Counts(StatefulBasicBolt):
    """Counts numbers modulo 50, and tells of its hooks."""

    output_fields = Fields("key", "count", "pid")

    def execute(self, tup: Tuple) -> tuple[int, int, int]:
        key = tup["number"] % 50
        count = self.state.get(key, 0) + 1
        self.state.put(key, count)
        return key, count, os.getpid()


class KeepsLarge(StatefulBasicBolt):
    """Keeps a large value for each number."""

    output_fields = Fields("number")

    def __init__(self, size: int) -> None:
        self.size = size

    def execute(self, tup: Tuple) -> tuple[int]:
        self.state.put(tup["number"], bytes(self.size))
        return (tup["number"],)


class CountsKept(StatefulBasicBolt):
    """Emits the number of values in its state, and their size."""

    output_fields = Fields("values", "size")

    def execute(self, tup: Tuple) -> tuple[int, int]:
        kept = [value for _, value in self.state.items()]
        return len(kept), sum(map(len, kept))


class CountsInBursts(StatefulBurstBolt):
    """Does the same in bursts."""

    output_fields = Fields("key", "count", "pid")

    def execute_many(self, burst: Burst) -> None:
        for tup, number in burst.items("number"):
            count = self.state.get(number % 50, 0) + 1
            self.state.put(number % 50, count)
            self.collector.emit((number % 50, count, os.getpid()), anchors=tup)


@stateful_bolt("key", "count", "pid")
def counts(tup: Tuple, state: KeyValueState[int, int]) -> Iterator[tuple[int, int, int]]:
    key = tup["number"] % 50
    state.put(key, state.get(key, 0) + 1)
    yield key, state.get(key, 0), os.getpid()


class CountsLate(StatefulBolt):
    """Changes its state and acks in a background task, some time after the call."""

    output_fields = Fields("key", "count", "pid")

    def init_state(self, state: KeyValueState[int, int]) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        self.context.create_task(self.count(tup))

    async def count(self, tup: Tuple) -> None:
        await asyncio.sleep(0.002)
        key = tup["number"] % 50
        self.state.put(key, self.state.get(key, 0) + 1)
        self.collector.emit((key, self.state.get(key, 0), os.getpid()), anchors=tup)
        self.collector.ack(tup)


class FailsAfterPut(StatefulBasicBolt):
    """Changes its state, and raises for each third number."""

    output_fields = Fields("key", "count", "pid")

    def execute(self, tup: Tuple) -> tuple[int, int, int]:
        self.state.put("all", [*self.state.get("all", []), tup["number"]])
        if tup["number"] % 3 == 0:
            raise ValueError("a third")
        return 0, len(self.state.get("all", [])), os.getpid()


class Hooked(StatefulBasicBolt):
    """Keeps a change until the hook of PREPARE, and writes its hooks into a file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fresh = 0

    def note(self, text: str) -> None:
        with open(self.path, "a") as file:
            file.write(f"{text}\n")

    def init_state(self, state: KeyValueState[str, int]) -> None:
        super().init_state(state)
        self.note(f"init {dict(state.items())}")

    def execute(self, tup: Tuple) -> None:
        self.fresh += 1

    async def pre_prepare(self, txid: int) -> None:
        await asyncio.sleep(0)
        self.state.put("total", self.state.get("total", 0) + self.fresh)
        self.fresh = 0

    def pre_commit(self, txid: int) -> None:
        self.note(f"commit {self.state.get('total', 0)}")

    def pre_rollback(self) -> None:
        self.note("rollback")
        self.fresh = 0


class ByPair(StatefulBasicBolt):
    """Has keys of which the grouping value is a part."""

    def key_of(self, key: Any) -> object:
        return key[0]

    def execute(self, tup: Tuple) -> None:
        pair = (tup["number"], "seen")
        self.state.put(pair, self.state.get(pair, 0) + 1)


class CrashingCounts(Counts):
    """Raises at one number, once."""

    def __init__(self, path: str, at: int) -> None:
        self.path = path
        self.at = at

    def execute(self, tup: Tuple) -> tuple[int, int, int]:
        if tup["number"] == self.at and not os.path.exists(self.path):
            open(self.path, "w").close()
            raise ZeroDivisionError("once")
        return super().execute(tup)


class TicksInTwoSteps(StatefulBasicBolt):
    """Changes two values in each tick, and awaits in between. Every second tick raises. Notes PREPAREs that see one change only."""

    tick_tuple_freq_secs = 0.1

    def __init__(self, path: str) -> None:
        self.path = path
        self.ticks = 0

    async def execute(self, tup: Tuple) -> None:
        if not tup.is_tick:
            self.state.put("numbers", self.state.get("numbers", 0) + 1)
            return
        self.ticks += 1
        first = "raised" if self.ticks % 2 == 0 else "first"
        self.state.put(first, self.ticks)
        await asyncio.sleep(0.04)
        if first == "raised":
            raise ValueError("every second tick")
        self.state.put("second", self.ticks)

    def pre_prepare(self, txid: int) -> None:
        if self.state.get("first", 0) != self.state.get("second", 0) or self.state.get("raised", 0):
            with open(self.path, "a") as file:
                file.write(f"checkpoint {txid} is inside a call\n")


class AwaitsLong(StatefulBasicBolt):
    """Awaits in each call."""

    output_fields = Fields("number")

    async def execute(self, tup: Tuple) -> AsyncIterator[tuple[int]]:
        await asyncio.sleep(0.03)
        self.state.put("all", self.state.get("all", 0) + 1)
        yield (tup["number"],)


class CancelsItself(StatefulBasicBolt):
    """Its first awaited `pre_prepare` cancels its own asyncio task."""

    def __init__(self, path: str) -> None:
        self.path = path

    def execute(self, tup: Tuple) -> None:
        self.state.put("all", self.state.get("all", 0) + 1)

    async def pre_prepare(self, txid: int) -> None:
        if self.is_first():
            this = asyncio.current_task()
            assert this is not None
            this.cancel()
            await asyncio.sleep(0)

    def is_first(self) -> bool:
        is_first = not Path(self.path).exists()
        Path(self.path).touch()
        return is_first


class HangsInCommit(StatefulBasicBolt):
    """Its first `pre_commit` with a change hangs."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.hung = False

    def execute(self, tup: Tuple) -> None:
        self.state.put("all", self.state.get("all", 0) + 1)

    async def pre_commit(self, txid: int) -> None:
        if self.hung or not self.state.get("all", 0):
            return
        self.hung = True
        try:
            await asyncio.sleep(3600)
        finally:
            self.note_cancelled()

    def note_cancelled(self) -> None:
        Path(self.path).write_text(f"cancelled with {self.state.get('all', 0)}\n")


class CommitsElsewhere(StatefulBasicBolt):
    """Writes its calls and commits to a file. From txid 2 on, `pre_commit` raises as long as there is a file `path`.away."""

    def __init__(self, path: str) -> None:
        self.path = path

    def note(self, text: str) -> None:
        with Path(self.path).open("a") as file:
            file.write(f"{text}\n")

    def init_state(self, state: Any) -> None:
        super().init_state(state)
        self.note(f"init_state with {state.get('all', 0)}")

    def execute(self, tup: Tuple) -> None:
        self.state.put("all", self.state.get("all", 0) + 1)

    def pre_commit(self, txid: int) -> None:
        if txid >= 2 and Path(f"{self.path}.away").exists():
            self.note(f"refused {txid}")
            raise ConnectionError("elsewhere is away")
        self.note(f"committed {txid}")


class KeyOfNeedsPrepare(ByPair):
    """Its `key_of` uses a value of `prepare`."""

    def prepare(self) -> None:
        self.at = 0

    def key_of(self, key: Any) -> object:
        return key[self.at]


class FailsAlways(StatefulBasicBolt):
    """Fails each input, and notes its instances."""

    def __init__(self, path: str) -> None:
        self.path = path

    def prepare(self) -> None:
        with open(self.path, "a") as file:
            file.write("prepared\n")

    def execute(self, tup: Tuple) -> None:
        raise ValueError("always")


class EmitsInRollback(StatefulBolt):
    """Raises in one `pre_prepare`, or emits in `pre_rollback`."""

    output_fields = Fields("number")

    def __init__(self, path: str, raises: bool) -> None:
        self.path = path
        self.raises = raises

    def init_state(self, state: KeyValueState[str, int]) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        self.state.put("all", self.state.get("all", 0) + 1)
        self.collector.ack(tup)

    def pre_prepare(self, txid: int) -> None:
        if self.raises and txid > 0 and not os.path.exists(self.path):
            open(self.path, "w").close()
            raise ValueError("once")

    def pre_rollback(self) -> None:
        if not self.raises:
            for _ in range(3_000):
                self.collector.emit((10**5_000,))  # more than one read of the run


class ExitsInHook(Counts):
    """Ends its program in the hook of PREPARE."""

    async def pre_prepare(self, txid: int) -> None:
        await asyncio.sleep(0)
        sys.exit(3)


OWNER: ContextVar[str] = ContextVar("OWNER", default="nobody")


class Owned(StatefulBasicBolt):
    """Emits the context variable that `prepare` has set, as each call and the last hook see it."""

    output_fields = Fields("in_call", "in_hook")

    def prepare(self) -> None:
        self.token = OWNER.set("prepare")
        self.in_hook = ""

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        super().init_state(state)
        self.in_hook = OWNER.get()

    async def pre_prepare(self, txid: int) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        self.in_hook = OWNER.get()

    def execute(self, tup: Tuple) -> tuple[str, str]:
        return OWNER.get(), self.in_hook

    def cleanup(self) -> None:
        OWNER.reset(self.token)


class DropsNamespaces(StatefulBasicBolt):
    """Counts the keys of a hundred numbers in a namespace, drops older ones, and raises behind the drop of each seventh number."""

    output_fields = Fields("key", "count", "pid")

    def execute(self, tup: Tuple) -> tuple[int, int, int]:
        pane = tup["number"] // 100
        for older in [name for name in self.state.namespaces() if isinstance(name, int) and name < pane - 1]:
            self.state.namespace(older).drop()
        counts = self.state.namespace(pane)
        counts.add_many([tup["key"]])
        if tup["number"] % 7 == 0:
            counts.drop()
            self.state.namespace("raised").put(tup["key"], True)
            raise ValueError("a seventh")
        return tup["key"], counts.get(tup["key"], 0), os.getpid()
