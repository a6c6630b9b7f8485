"""Processes that run one topology's checkpoints, one by one or at once; each call of their stores waits for its turn, which is drawn."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeAlias

from engine import Config
from engine.checkpoint.checkpoints import Checkpoints
from engine.checkpoint.machine import Event
from engine.clock import Clock
from engine.errors import StateError, StateFenced, StateUnavailable
from engine.state import LayeredState, StatePlace, StateProvider

NAME: Final = "play"
COMPONENT: Final = "count"
KEY_GROUPS: Final = 8
KEYS: Final = range(14)
FAULTY: Final = 0.16
"""The share of calls whose answer is lost, or that arrive late."""
QUIET_TURNS: Final = 12
"""So many turns of the loop, and every coroutine waits for a call."""
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
    """What the processes have prepared, by txid and round, and of what they have handed acks on."""

    prepared: dict[tuple[int, int], Contents] = field(default_factory=dict)
    released: set[tuple[int, int]] = field(default_factory=set)
    loaded: int = 0

    def check(self, record: Any, found: Contents) -> None:
        """What a process finds at its start is the last committed checkpoint, and no ack was handed on without one."""
        self.loaded += 1
        counted = record.counted[-1] if record.counted else None
        assert found == (self.prepared[counted] if counted else {}), f"not what was committed as {counted}"
        assert self.released <= set(record.counted), "an ack was handed on for what does not count"


class Process:
    """One life of a process: what it would do undisturbed is `run`."""

    def __init__(self, provider: StateProvider, draws: Random, truth: Truth, calls: list[Call]) -> None:
        self.provider, self._draws, self._truth, self._calls = provider, draws, truth, calls
        self.is_dead = False
        tasks = draws.choice((1, 2, 2, 3))
        self.places = [StatePlace(COMPONENT, index, tasks, True, KEY_GROUPS) for index in range(tasks)]
        self.checkpoints = Checkpoints(NAME, provider, Config(state_timeout_secs=600), Clock(), self.places)
        self.states: list[LayeredState[int, int]] = []

    def hold(self, owner: Any, *names: str) -> None:
        """Have these calls wait for their turn."""
        for name in names:
            setattr(owner, name, self._held(getattr(owner, name)))

    def _held(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def held(*what: Any) -> Any:
            if self.is_dead:
                raise StateUnavailable("a dead process calls nobody")
            turn = asyncio.get_running_loop().create_future()
            self._calls.append(Call(self, lambda: call(*what), turn))
            return await turn

        return held

    async def run(self, checkpoints: int) -> None:
        """Start, look at what is found, and make checkpoints; it may be fenced at any call."""
        try:
            await self._start()
            for _ in range(checkpoints):
                await self._checkpoint()
        except StateFenced:
            self.is_dead = True
        except StateUnavailable:
            assert not self.checkpoints.begun, "only an opening may be given up at once"
            self.is_dead = True

    async def _start(self) -> None:
        await self.provider.open(NAME)
        await self.checkpoints.open()
        self.checkpoints.begun = True
        await self._on(Event.BEGIN)
        self.states = list(await asyncio.gather(*(self.checkpoints.state_of(place, None) for place in self.places)))
        record, found = self.checkpoints.machine.record, self._contents()
        await self._on(Event.DONE)  # else another process has taken the topology over, and perhaps changed what was being read
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
        self._change()  # of the next one
        writes = [asyncio.ensure_future(patiently(state.write_frozen)) for state in self.states]
        if self._draws.random() < 0.2:  # a task has died: what is being written is given up, and goes on
            await self._on(Event.FAILED)
            for state in self.states:
                await state.rollback()
            for event in (Event.DONE, Event.DONE):
                await self._on(event)
            await asyncio.gather(*writes)
            return
        await asyncio.gather(*writes)
        await self._on(Event.DONE)
        await asyncio.gather(*(self._commit(state, txid, round_) for state in self.states))
        if self._draws.random() < 0.2:
            await self._on(Event.FAILED)
            await asyncio.gather(*(self._commit(state, txid, round_) for state in self.states))
            await self._on(Event.DONE)
        await self._on(Event.DONE)

    async def _commit(self, state: LayeredState[int, int], txid: int, round_: int) -> None:
        await self.checkpoints.patiently(lambda: state.commit(txid))
        self._truth.released.add((txid, round_))


class Play:
    """Lets one call after the other go. `arrives_late`: calls may come to the store long after they were given up, whoever lives then."""

    def __init__(self, draws: Random, *, arrives_late: bool) -> None:
        self._draws, self._arrives_late = draws, arrives_late
        self.calls: list[Call] = []
        self.truth = Truth()
        self.late: list[Callable[[], Awaitable[Any]]] = []
        self.arrived = 0
        self._idle = 0
        self._unanswered: list[Call] = []
        """Those of dead processes: who waits for them is kept until the end of the play."""

    async def live(self, runs: "list[tuple[Process, Coroutine[Any, Any, None]]]", most_turns: int) -> None:
        """Have processes live, at once, for so many turns at most: then they are dead, and what they have asked for may arrive later."""
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
        """Have all that is late arrive."""
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
            assert self._idle < MOST_IDLE, "a process waits for ever, and for no call"
            await asyncio.sleep(0.0005)  # a pause before another try, or a thread
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
