"""A group of real processes that a test starts, kills, pauses and ends, and a load of numbered records."""

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.kafka.torture.journal import Life
from tests.kafka.torture.judge import Evidence, Place, Verdict, judge
from tests.kafka.torture.member_spec import MemberSpec
from tests.kills.bolt_forms import BOLTS, choose_in_turn, kill_run, strike_bolt_process
from tests.servers.kafka_admin import admin, create_topic, fresh_name
from tests.servers.keeper import living

PAUSE_SECS: Final = 0.05
PATIENCE_SECS: Final = 120.0
PARTITIONS: Final = 6
TICK_SECS: Final = 0.02
MOST_UNSENT: Final = 5000
TAIL_CHARACTERS: Final = 3000


class Load:
    """Appends the numbers 0, 1, 2… to a topic at a rate, until `stop`."""

    def __init__(self, brokers: str, topic: str, rate: float) -> None:
        self.brokers, self.topic, self.rate = brokers, topic, rate
        self.numbers: dict[Place, int] = {}
        """Numbers by place, from the broker's answers."""
        self.count = 0
        self._unsent = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._produce())

    async def stop(self) -> None:
        """Stop, after the broker has acknowledged all records."""
        self.rate = 0
        if self._task is not None:
            await self._task

    async def produce(self, count: int) -> None:
        """Append so many records at once."""
        async with self._producer() as producer:
            for _ in range(count):
                await self._send(producer)

    def _producer(self) -> AIOKafkaProducer:
        return AIOKafkaProducer(bootstrap_servers=self.brokers, acks="all", linger_ms=5, request_timeout_ms=120_000)

    async def _produce(self) -> None:
        async with self._producer() as producer:
            owed = 0.0
            while self.rate:
                owed += self.rate * TICK_SECS
                while owed >= 1 and self._unsent < MOST_UNSENT:
                    await self._send(producer)
                    owed -= 1
                await asyncio.sleep(TICK_SECS)

    async def _send(self, producer: AIOKafkaProducer) -> None:
        number = self.count
        self.count += 1
        self._unsent += 1
        sent = await producer.send(self.topic, str(number).encode(), partition=number % PARTITIONS)
        sent.add_done_callback(lambda done: self._sent(number, done))

    def _sent(self, number: int, done: "asyncio.Future[object]") -> None:
        self._unsent -= 1
        if not done.cancelled() and done.exception() is None:
            at: object = done.result()
            self.numbers[at.partition, at.offset] = number  # type: ignore[attr-defined]


async def read_values(brokers: str, topic: str) -> list[bytes | None]:
    """Return all values of a topic with one partition."""
    at = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(at.topic, bootstrap_servers=brokers, auto_offset_reset="earliest") as consumer:
        end = (await consumer.end_offsets([at]))[at]
        return [(await consumer.getone()).value for _ in range(end)]


class Member:
    """One process of the group."""

    def __init__(self, name: str, spec: MemberSpec) -> None:
        self.name, self.spec = name, spec
        self.life = Life(Path(spec.journal))
        self.is_paused = False
        self.strikes = 0
        """Number of strikes at processes of its bolts."""
        self.log = Path(spec.journal).with_suffix(".log")
        with self.log.open("wb") as log:
            command = [sys.executable, "-m", "tests.kafka.torture.member", spec.written()]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)

    def kill(self) -> list[int]:
        """Kill it with kill -9, if it runs. Return the processes of its bolts, which end too, after a stopped one continues."""
        return kill_run(self.process.pid) if self.is_alive else []

    def close(self) -> None:
        """Kill it if it runs, and wait for its end."""
        self.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    @property
    def is_alive(self) -> bool:
        """True while it runs, or is paused."""
        return self.process.poll() is None

    @property
    def was_killed(self) -> bool:
        """True after a kill -9."""
        return self.process.poll() == -signal.SIGKILL

    def said(self) -> str:
        """Return the end of its output."""
        return self.log.read_text(errors="replace")[-TAIL_CHARACTERS:]

    def describe(self) -> str:
        """Return its state as text."""
        owned = sorted(partition for _, partition in self.life.owned)
        return (
            f"{self.name}, {self.spec.bolts}, {self.strikes} strikes: status {self.process.poll()}, paused {self.is_paused}, "
            f"generations {self.life.generations}, owns {owned}, done {self.life.done}"
        )


class Group:
    """All processes of one group on one topic, with their load: `async with Group(...) as group`."""

    def __init__(self, brokers: str, folder: Path, *, rate: float = 300, **spec: object) -> None:
        self.folder = folder
        topic = fresh_name("torture")
        self.spec = MemberSpec(brokers=brokers, topic=topic, group=topic, journal="", **spec)  # type: ignore[arg-type]
        self.load = Load(brokers, topic, rate)
        self.members: list[Member] = []

    async def __aenter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        await create_topic(self.spec.brokers, self.spec.topic, PARTITIONS)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.load.rate = 0
        for member in self.members:
            member.close()

    # Actions on members

    def join(self, **changes: object) -> Member:
        """Start another process."""
        name = f"member-{len(self.members)}"
        bolts = choose_in_turn(BOLTS, self.spec.seed, len(self.members))
        changes = {"journal": str(self.folder / name), "seed": self.spec.seed + len(self.members), "bolts": bolts, **changes}
        member = Member(name, replace(self.spec, **changes))  # type: ignore[arg-type]
        self.members.append(member)
        return member

    async def leave(self, member: Member) -> None:
        """Drain a member, which then leaves the group."""
        member.process.terminate()
        await self.until(lambda: not member.is_alive, f"{member.name} ends")
        if member.process.returncode != 0:
            raise AssertionError(f"{member.name} ended with status {member.process.returncode}:\n{member.said()}")

    async def kill(self, member: Member) -> None:
        """Kill a member with kill -9. The processes of its bolts end, too (PR-2)."""
        bolts = member.kill()
        await self.until(lambda: not member.is_alive and living().keys().isdisjoint(bolts), f"{member.name} and its {bolts} die")

    def strike_bolt(self, draws: random.Random) -> bool:
        """Kill or stop the process of a bolt. Return False if no live member has one."""
        for member in draws.sample(self.live, len(self.live)):
            if strike_bolt_process(member.process.pid, draws):
                member.strikes += 1
                return True
        return False

    def pause(self, member: Member) -> None:
        """Pause a member with SIGSTOP."""
        member.process.send_signal(signal.SIGSTOP)
        member.is_paused = True

    def go_on(self, member: Member) -> None:
        """Resume a paused member."""
        member.process.send_signal(signal.SIGCONT)
        member.is_paused = False

    # Conditions

    @property
    def live(self) -> list[Member]:
        """Members that run and are not paused."""
        return [member for member in self.members if member.is_alive and not member.is_paused]

    @property
    def generation(self) -> int:
        """Highest generation of any assignment."""
        return max((number for member in self.members for number in member.life.all_generations), default=0)

    @property
    def done(self) -> int:
        """Number of done records, repeats included."""
        return sum(member.life.done for member in self.members)

    def read(self) -> None:
        """Read the new lines of the journals."""
        for member in self.members:
            member.life.read()

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition. Raise AssertionError with all states if it does not come, or if a process ends."""
        try:
            async with asyncio.timeout(PATIENCE_SECS):
                while not condition():
                    await asyncio.sleep(PAUSE_SECS)
                    self.read()
                    for member in self.members:
                        if member.process.poll() not in (None, 0, -signal.SIGKILL):
                            raise AssertionError(f"{member.name} ended with status {member.process.returncode}:\n{member.said()}")
        except TimeoutError:
            stand = "\n".join(member.describe() for member in self.members if member.is_alive)
            said = "\n".join(f"{member.name} said:\n{member.said()}" for member in self.live[-2:])
            raise AssertionError(f"no {what} within {PATIENCE_SECS:g} s; done {self.done}, {self.folder}\n{stand}\n{said}") from None

    def is_settled(self, after: int = 0) -> bool:
        """Return True if all live members are in one generation after this one, and have opened all partitions."""
        live = self.live
        generations = [number for member in live for number in member.life.generations.values()]
        owned = sorted(partition for member in live for _, partition in member.life.owned)
        return (
            len(generations) == sum(member.spec.tasks for member in live)
            and len(set(generations)) == 1
            and generations[0] > after
            and owned == list(range(PARTITIONS))
        )

    async def settle(self, after: int = 0) -> None:
        """Wait until the live members share all partitions in a generation after this one."""
        await self.until(lambda: self.is_settled(after), f"the group settles after generation {after}")

    async def progress(self, records: int) -> None:
        """Wait until so many more records are done."""
        goal = self.done + records
        await self.until(lambda: self.done >= goal, f"{records} more records are done")

    # The end

    async def finish(self) -> dict[int, int]:
        """Stop the load, wait until all records are done, and let all members leave. Return the ends of the partitions."""
        await self.load.stop()
        ends = await self._ends()
        every = {(partition, offset) for partition, end in ends.items() for offset in range(end)}
        if self.spec.guarantee == "at_least_once":
            await self.until(lambda: self._have_committed(ends) and every <= self._done_places(), f"every record is done: {ends}")
        else:
            await self.until(lambda: self._reached(ends), "every partition is read to its end")
        for member in self.live:
            await self.leave(member)
        self.read()
        return ends

    def _have_committed(self, ends: dict[int, int]) -> bool:
        """Return True if the live members share all partitions, and each is committed to its end."""
        tenures = [tenure for member in self.live for tenure in member.life.owned.values()]
        return self.is_settled() and all((one.commit.offset if one.commit else one.start) == ends[one.partition] for one in tenures)

    def _done_places(self) -> set[Place]:
        emissions = (one for member in self.members for one in member.life.emissions.values())
        return {(one.tenure.partition, one.offset) for one in emissions if one.done is not None}

    def _reached(self, ends: dict[int, int]) -> bool:
        """Return True if the last record of each partition was emitted, and all emissions of live members are done."""
        emissions = [one for member in self.members for one in member.life.emissions.values()]
        last = {(partition, end - 1) for partition, end in ends.items()}
        live = {member.life.path.name for member in self.live}
        return last <= {(one.tenure.partition, one.offset) for one in emissions} and all(
            one.done is not None for one in emissions if one.tenure.life in live
        )

    async def _ends(self) -> dict[int, int]:
        partitions = [TopicPartition(self.spec.topic, number) for number in range(PARTITIONS)]
        async with AIOKafkaConsumer(bootstrap_servers=self.spec.brokers) as consumer:
            return {at.partition: end for at, end in (await consumer.end_offsets(partitions)).items()}

    async def _committed(self) -> dict[int, int]:
        async with admin(self.spec.brokers) as client:
            found = await client.list_consumer_group_offsets(self.spec.group)
            return {at.partition: one.offset for at, one in found.items()}

    async def verdict(self) -> Verdict:
        """Finish, and return the verdict."""
        ends = await self.finish()
        killed = {member.life.path.name for member in self.members if member.was_killed}
        struck = {member.life.path.name for member in self.members if member.strikes}
        evidence = Evidence([member.life for member in self.members], killed, ends, self.load.numbers, await self._committed(), struck)
        verdict = judge(evidence, self.spec.guarantee, carries_set=self.spec.commit_acked_set)
        verdict.counts.update(f"processes, {member.spec.bolts}" for member in self.members)
        verdict.counts["strikes at bolts"] = sum(member.strikes for member in self.members)
        if verdict.violations:
            verdict.violations.append(f"The journals: {self.folder}")
        return verdict
