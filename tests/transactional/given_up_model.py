"""Simulates topologies with rows that fail always, for a while or by turns, through deaths of tasks and processes, and judges them (TX-13).

The judge knows nothing of attempts. Of each row, each committer must have stored one copy, or a letter must tell why not: of the committer
itself, or of the bolt before it.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from engine import BasicBolt, Config, FailTuple, Tuple
from engine.dead_letters import DeadLetter, letters_in
from engine.errors import ComponentError
from engine.state.codec import MessagePack
from engine.testing import run_topology
from engine.transactional import (
    BatchBolt,
    BurstBolt,
    Committer,
    MemoryOpaqueSpout,
    MemoryTransactionalSpout,
    TransactionalTopologyBuilder,
    TransactionAttempt,
)
from engine.transactional.transactional_state import ENTRY, LEDGER, read_record
from tests.checkpoint.slow_store import IN_USE, Conditions, Disk, SlowProvider, StoreStrike

ROWS: Final = 40
PROVIDER: Final = "tests.checkpoint.slow_store:provider?given-up"
COMMITTERS: Final = ("a", "b")


@dataclass
class World:
    """What outlives the processes of one simulation."""

    seed: int
    take: int
    opaque: bool
    failures_left: Mapping[str, dict[int, list[int]]]
    """Component -> number of a row -> how often it still passes, and how often it then fails."""
    disk: Disk = field(default_factory=Disk)
    stored: dict[str, dict[int, tuple[TransactionAttempt, list[int]]]] = field(default_factory=lambda: {"a": {}, "b": {}})
    """Committer -> txid -> the attempt that counts, and its rows."""
    is_dead: bool = False

    def check(self, component_id: str, number: int) -> int:
        """Return the number of a row, or raise if it fails this time."""
        left = self.failures_left[component_id].get(number, [0, 0])
        fails = not left[0] and left[1] > 0
        if not self.is_dead and left[fails]:
            left[fails] -= 1
        if fails:
            raise (FailTuple if number % 2 else ValueError)(f"{number} is bad")
        return number

    def commit(self, component_id: str, attempt: TransactionAttempt, numbers: list[int]) -> None:
        """Store a batch once. An opaque one is replaced by a later attempt."""
        stored = self.stored[component_id]
        if not self.is_dead and (attempt.txid not in stored or (self.opaque and stored[attempt.txid][0] < attempt)):
            stored[attempt.txid] = (attempt, numbers)


def new_world(seed: int) -> World:
    """Draw the rows that fail. The first row of each batch passes, so that no batch is an outage for ever."""
    draws = random.Random(seed)
    take = draws.randint(3, 12)
    left: dict[str, dict[int, list[int]]] = {}
    for component in ("first", *COMMITTERS):
        numbers = [number for number in range(ROWS) if number % take and draws.random() < draws.choice([0.0, 0.1, 0.4])]
        ways = [[0, 10**9], [0, 10**9], [0, draws.randint(1, 6)], [draws.randint(1, 3), draws.randint(1, 6)]]
        left[component] = {number: list(draws.choice(ways)) for number in numbers}
    return World(seed, take, draws.random() < 0.4, left)


def topology_of(world: World, draws: random.Random) -> Any:
    """Return the rows, a bolt of some form, and two committers."""
    spout = (MemoryOpaqueSpout if world.opaque else MemoryTransactionalSpout)(
        {"rows": [(number,) for number in range(ROWS)]}, "number", world.take
    )
    builder = TransactionalTopologyBuilder("given-up", "rows", spout, max_spout_pending=draws.randint(1, 3))
    form = _BOLTS[draws.choice(sorted(_BOLTS))]
    builder.set_bolt("first", lambda: form(world), draws.randint(1, 3)).shuffle_grouping("rows")
    for component in COMMITTERS:
        builder.set_committer(component, _committer(world, component, waits=draws.random() < 0.5)).shuffle_grouping("first")
    return builder.build()


class _Plain(BasicBolt):
    output_fields = "number"

    def __init__(self, world: World) -> None:
        self.world = world

    def execute(self, tup: Tuple) -> Any:
        return (self.world.check("first", tup["number"]),)


class _Waits(_Plain):
    concurrency = 3

    async def execute(self, tup: Tuple) -> Any:
        await asyncio.sleep(0.001 * (tup["number"] % 3))
        return (self.world.check("first", tup["number"]),)


class _Batch(BatchBolt):
    output_fields = "number"

    def __init__(self, world: World) -> None:
        self.world = world

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(0.001)
        self.collector.emit((self.world.check("first", tup["number"]),))

    def finish_batch(self) -> None:
        return None


class _Bursts(BurstBolt):
    output_fields = "number"
    burst_rows = 5

    def __init__(self, world: World) -> None:
        self.world = world

    def execute_many(self, burst: Any) -> Any:
        numbers = [self.world.check("first", tup["number"]) for tup in burst]
        self.collector.emit_each(numbers)

    def finish_batch(self) -> None:
        return None


_BOLTS: Final[Mapping[str, Any]] = {"plain": _Plain, "waits": _Waits, "batch": _Batch, "bursts": _Bursts}


def _committer(world: World, component_id: str, *, waits: bool) -> Any:
    class Stores(Committer):
        def prepare(self) -> None:
            self.numbers: list[int] = []

        def execute(self, tup: Tuple) -> Any:
            self.numbers.append(world.check(component_id, tup["number"]))

        async def finish_batch(self) -> None:
            await asyncio.sleep(0.002)
            world.commit(component_id, self.attempt, self.numbers)
            await asyncio.sleep(0.002)

    class Waits(Stores):
        async def execute(self, tup: Tuple) -> Any:
            await asyncio.sleep(0.001)
            super().execute(tup)

    return Waits if waits else Stores


def simulate(seed: int) -> list[str]:
    """Run a simulation to its end. Return what is wrong."""
    draws, world = random.Random(f"{seed} processes"), new_world(seed)
    for dies in [*[True] * draws.choice([0, 1, 1, 2, 3]), False]:
        _play(world, draws, dies=dies)
    return judge(world)


def _play(world: World, draws: random.Random, *, dies: bool) -> None:
    """Run one process, to its end or to its death."""
    world.is_dead = False
    died = asyncio.Event()
    strikes = [StoreStrike(draws.choice(["before write", "after write"]), draws.randint(1, 5), None)] if dies else []

    def kill(strike: object = None) -> None:
        world.is_dead = conditions.is_dead = True
        died.set()

    conditions = Conditions(draws, draws.choice([0.0, 0.001, 0.02]), draws.choice([0.0, 0.05]), (), strikes, kill)

    async def script(run: Any) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(draws.choice([0, 1, 3, 6])):
            component = draws.choice(["rows", "rows/coordinator", "first", *COMMITTERS])
            loop.call_later(
                draws.choice([0.02, 0.3, 3]) * draws.random(),
                lambda name=component: run.state == "running" and run.kill_task(run.task_ids(name)[0]),
            )
        if dies:
            loop.call_later(draws.choice([0.05, 0.5, 4]) * draws.random(), kill)
        waiting = [asyncio.ensure_future(run.completed()), asyncio.ensure_future(died.wait())]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        if conditions.is_dead:
            await run.stop()

    IN_USE["given-up"] = SlowProvider(world.disk, conditions, resident=False)
    config = Config(state_provider=PROVIDER, max_retries=draws.choice([1, 2, 3]), max_task_restarts=1_000)
    try:
        run_topology(topology_of(world, draws), config, during=script, shuffle=True, seed=draws.getrandbits(32), limit_secs=3_000)
    except ComponentError:
        if not conditions.is_dead:
            raise
    finally:
        IN_USE.clear()


def judge(world: World) -> list[str]:
    """Return the rows that are lost, doubled, or given up without a reason."""
    entries = world.disk.ledgers[LEDGER]
    letters = [letter for letter in letters_in(entries).values() if letter.txid <= read_record(entries[ENTRY], "given-up").record.committed]
    wrong = [f"a letter in doubt is left: {name}" for name in letters_in(entries)][len(letters) :]
    for component in COMMITTERS:
        stored = Counter(number for _, numbers in world.stored[component].values() for number in numbers)
        told = Counter(_number(letter) for letter in letters if letter.component_id in ("first", component))
        for number in range(ROWS):
            if stored[number] + told[number] != 1:
                wrong.append(f"{component}: row {number} is stored {stored[number]} times, and has {told[number]} letters")
    for letter in letters:
        if _number(letter) % world.take == 0 or _number(letter) not in world.failures_left[letter.component_id]:
            wrong.append(f"row {_number(letter)} never failed in {letter.component_id!r}, and was given up")
        if "is bad" not in letter.error or letter.attempts < 1:
            wrong.append(f"the letter {letter} does not say why")
    return wrong


def _number(letter: DeadLetter) -> int:
    assert letter.row.encoded is not None
    number: int = MessagePack().decode(letter.row.encoded)[0]
    return number
