"""Processes that checkpoint one topology, one after the other or at once. Their calls of the stores are answered in random order."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeAlias

from engine import Config
from engine.checkpoint.checkpoints import Checkpoints
from engine.checkpoint.layout import Layout
from engine.checkpoint.machine import Event
from engine.clock import Clock
from engine.errors import StateError, StateFenced, StateUnavailable
from engine.state import LayeredState, StatePlace, StateProvider

NAME: Final = "play"
COMPONENT: Final = "count"
KEY_GROUPS: Final = 8
KEYS: Final = range(14)
FAULTY: Final = 0.16
"""Share of calls whose answer is lost, or that arrive late."""
QUIET_TURNS: Final = 12
"""Turns of the loop after which every coroutine waits for a call."""
MOST_IDLE: Final = 4000
Contents: TypeAlias = dict[int, int]


@dataclass(slots=True)
class Call:
    """A call that waits for its turn."""

    process: "Process"
    make: Callable[[], Awaitable[Any]]
    turn: "asyncio.Future[Any]"


@dataclass(slots=True)
class Truth:
    """Contents that the processes have prepared, by txid and round, and the rounds whose acks were released."""

    prepared: dict[tuple[int, int], Contents] = field(default_factory=dict)
    released: set[tuple[int, int]] = field(default_factory=set)
    loaded: int = 0

    def check(self, record: Any, found: Contents) -> None:
        """A process must start with the last committed checkpoint, and no ack may be released before its checkpoint counts."""
        self.loaded += 1
        counted = record.counted[-1] if record.counted else None
        assert found == (self.prepared[counted] if counted else {}), f"differs from the contents committed as {counted}"
        assert self.released <= set(record.counted), "an ack was released before its checkpoint counted"


class Process:
    """One process; `run` is its whole life without faults."""

    def __init__(self, provider: StateProvider, draws: Random, truth: Truth, calls: list[Call]) -> None:
        self.provider, self._draws, self._truth, self._calls = provider, draws, truth, calls
        self.is_dead = False
        tasks = draws.choice((1, 2, 2, 3))
        self.places = [StatePlace(COMPONENT, index, tasks, True, KEY_GROUPS) for index in range(tasks)]
        self.checkpoints = Checkpoints(NAME, provider, Config(state_timeout_secs=600), Clock(), Layout(self.places, {}))
        self.states: list[LayeredState[int, int]] = []

    def hold(self, owner: Any, *names: str) -> None:
        """Let these calls wait for their turn."""
        for name in names:
            setattr(owner, name, self._held(getattr(owner, name)))

    def _held(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def held(*what: Any) -> Any:
            if self.is_dead:
                raise StateUnavailable("the process is dead")
            turn = asyncio.get_running_loop().create_future()
            self._calls.append(Call(self, lambda: call(*what), turn))
            return await turn

        return held

    async def run(self, checkpoints: int) -> None:
        """Start, check the contents, and make checkpoints. Any call may find that the process is fenced."""
        try:
            await self._start()
            for _ in range(checkpoints):
                await self._checkpoint()
        except StateFenced:
            self.is_dead = True
        except StateUnavailable:
            assert not self.checkpoints.begun, "a process may end without a checkpoint only while it opens"
            self.is_dead = True

    async def _start(self) -> None:
        await self.provider.open(NAME)
        await self.checkpoints.open()
        self.checkpoints.begun = True
        await self._on(Event.BEGIN)
        self.states = list(await asyncio.gather(*(self.checkpoints.state_of(place, None) for place in self.places)))
        record, found = self.checkpoints.machine.record, self._contents()
        if record.phase == "committing":
            await asyncio.gather(*(self._commit(state, record.txid, record.prepared_round) for state in self.states))
        await self._on(Event.DONE)  # fails if another process has taken over, and may have changed the contents during the reads
        self._truth.check(record, found)

    async def _on(self, event: Event) -> None:
        assert self.checkpoints.machine.apply_event(event)
        await self.checkpoints.save()

    def _contents(self) -> Contents:
        return {key: value for state in self.states for key, value in state.items()}

    def _change(self) -> None:
        for key in self._draws.sample(KEYS, self._draws.randint(0, 6)):
            [state] = [one for one in self.states if one.place.slot_of(key) in one.place.slots]
            if self._draws.random() < 0.2:
                state.delete(key)
            else:
                state.put(key, self._draws.randrange(10**6))

    async def _checkpoint(self) -> None:
        machine, patiently = self.checkpoints.machine, self.checkpoints.patiently
        self._change()
        await self._on(Event.DUE)
        txid, round_ = machine.record.txid, machine.record.round
        self._truth.prepared[txid, round_] = self._contents()
        for state in self.states:
            state.freeze(txid, round_)
        self._change()  # a change that belongs to the next checkpoint
        writes = [asyncio.ensure_future(patiently(state.write_frozen)) for state in self.states]
        if self._draws.random() < 0.2:  # a task died: the checkpoint is abandoned while it is written
            await self._on(Event.FAILED)
            for state in self.states:
                await state.rollback()
            await self._on(Event.DONE)
            await asyncio.gather(*writes)
            return
        await asyncio.gather(*writes)
        await self._on(Event.DONE)
        await asyncio.gather(*(self._commit(state, txid, round_) for state in self.states))
        if self._draws.random() < 0.2:
            await self._on(Event.FAILED)
            await asyncio.gather(*(self._commit(state, txid, round_) for state in self.states))
        await self._on(Event.DONE)

    async def _commit(self, state: LayeredState[int, int], txid: int, round_: int) -> None:
        await self.checkpoints.patiently(lambda: state.commit(txid))
        self._truth.released.add((txid, round_))


class Interleaving:
    """Lets one call after another proceed. With `arrives_late`, abandoned calls may reach the store much later."""

    def __init__(self, draws: Random, *, arrives_late: bool) -> None:
        self._draws, self._arrives_late = draws, arrives_late
        self.calls: list[Call] = []
        self.truth = Truth()
        self.late: list[Callable[[], Awaitable[Any]]] = []
        self.arrived = 0
        self._idle = 0
        self._unanswered: list[Call] = []
        """Calls of dead processes. Their callers are kept until the end."""

    async def live(self, runs: "list[tuple[Process, Coroutine[Any, Any, None]]]", most_turns: int) -> None:
        """Run processes at the same time, for a limited number of turns. Then they are dead, but their calls may still arrive."""
        tasks = [asyncio.ensure_future(run) for _, run in runs]
        for _ in range(most_turns):
            await self._settle()
            if all(task.done() for task in tasks):
                break
            await self._turn()
        for process, _ in runs:
            process.is_dead = True
        if self._arrives_late:
            self.late += [call.make for call in self.calls if self._draws.random() < 0.7]
        self._unanswered += self.calls
        self.calls.clear()
        for task in tasks:
            if task.done():
                task.result()

    async def end(self) -> None:
        """Let all late calls arrive."""
        while self.late:
            await self._deliver()

    async def _settle(self) -> None:
        for _ in range(QUIET_TURNS):
            await asyncio.sleep(0)

    async def _turn(self) -> None:
        if self.late and self._draws.random() < 0.15:
            await self._deliver()
        if not self.calls:
            self._idle += 1
            assert self._idle < MOST_IDLE, "a process waits for ever, but not for a call"
            await asyncio.sleep(0.0005)  # a pause before the next try, or a thread
            return
        self._idle = 0
        call = self.calls.pop(self._draws.randrange(len(self.calls)))
        fate = self._draws.random()
        if fate < FAULTY / 2 and self._arrives_late:
            self.late.append(call.make)
            self._answer(call, StateUnavailable("injected: no answer; it arrives late"))
            return
        try:
            answer: Any = await call.make()
        except StateError as error:
            answer = error
        if FAULTY / 2 <= fate < FAULTY:
            answer = StateUnavailable("injected: the answer is lost")
        self._answer(call, answer)

    def _answer(self, call: Call, answer: Any) -> None:
        if call.turn.done():
            return
        if isinstance(answer, StateError):
            call.turn.set_exception(answer)
        else:
            call.turn.set_result(answer)

    async def _deliver(self) -> None:
        self.arrived += 1
        with suppress(StateError):
            await self.late.pop(self._draws.randrange(len(self.late)))()
