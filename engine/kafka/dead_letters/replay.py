"""Sends dead letters back to where they came from, each once: what was sent is noted in the commits of a group of its own."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, NamedTuple

from engine.errors import EngineBug, FatalError, UsageError
from engine.kafka.client.admin_client import AdminClient, ClusterConfig, translate_errors
from engine.kafka.client.errors import Report, describe_error
from engine.kafka.client.partition import PartitionId
from engine.kafka.client.producer_link import ProducerLink, java_partition, producer_options, send_error_kind
from engine.kafka.dead_letters.dead_letter import DeadLetter, is_dead_letter
from engine.kafka.dead_letters.dead_letter_list import DeadLetterFilter, StoredDeadLetter, records_until, stored_dead_letter
from engine.kafka.dead_letters.replay_member import SESSION_MS, Place, alone
from engine.kafka.dead_letters.replay_progress import ReplayProgress

DELIVERY_SECS: Final = 30.0


class Outcome(NamedTuple):
    """What became of a letter: nothing of these where it was written."""

    refused: str | None = None
    """Why no broker takes it."""
    error: Exception | None = None
    """Why it is not known to be written; others may fare no better."""


SENT: Final = Outcome()


class DeadLetterSender:
    """A producer for replays. A letter goes to the partition that it was read from, or, where that is not known, to that of its key."""

    def __init__(self, config: ClusterConfig, report: Report) -> None:
        options = producer_options(config, f"{config.client_id}.replay")
        self._link = ProducerLink(config, options, writing="sending dead letters back", report=report)
        self._turns = count()

    async def start(self) -> None:
        """Connect; FatalError where that cannot be, TimeoutError where it does not come to be."""
        async with asyncio.timeout(DELIVERY_SECS):
            await self._link.start()

    async def stop(self) -> None:
        """End."""
        await self._link.stop()

    async def send(self, letters: Sequence[tuple[str, DeadLetter]], *, to_own_partition: bool) -> list[Outcome]:
        """Write letters to these topics, and return what became of each once that is known; those of a partition stay in order."""
        places: dict[tuple[str, int], list[int]] = {}
        for number, (topic, letter) in enumerate(letters):
            places.setdefault((topic, await self._partition(topic, letter, to_own_partition=to_own_partition)), []).append(number)
        outcomes = [SENT] * len(letters)

        async def send_there(topic: str, partition: int, numbers: Sequence[int]) -> None:
            for number, outcome in zip(
                numbers, await self._send_there(topic, partition, [letters[one][1] for one in numbers]), strict=True
            ):
                outcomes[number] = outcome

        await asyncio.gather(*(send_there(*place, numbers) for place, numbers in places.items()))
        return outcomes

    async def _partition(self, topic: str, letter: DeadLetter, *, to_own_partition: bool) -> int:
        async with asyncio.timeout(2 * DELIVERY_SECS):  # it waits for brokers that are away, and a command is to end
            partitions = await self._link.partitions_of(topic, DELIVERY_SECS)
        if to_own_partition and letter.partition in partitions:
            return letter.partition
        return partitions[next(self._turns) % len(partitions)] if letter.key is None else java_partition(letter.key, partitions)

    async def _send_there(self, topic: str, partition: int, letters: Sequence[DeadLetter]) -> list[Outcome]:
        """Write letters to one partition, batch after batch; after an error that is not of a letter alone, no more."""
        outcomes: list[Outcome] = []
        while len(outcomes) < len(letters):
            batch, records = self._filled(letters[len(outcomes) :])
            outcome = await self._send_batch(batch, topic, partition)
            if outcome.refused is not None and records > 1:  # perhaps together only
                for letter in letters[len(outcomes) : len(outcomes) + records]:
                    outcomes.append(await self._send_batch(self._filled([letter])[0], topic, partition))
            else:
                outcomes += [outcome] * records
            if failed := next((one for one in outcomes if one.error is not None), None):
                outcomes += [failed] * (len(letters) - len(outcomes))
        return outcomes

    def _filled(self, letters: Sequence[DeadLetter]) -> tuple[Any, int]:
        """A batch of the first letters, as many as it takes, and how many these are."""
        batch = self._link.new_batch()
        for number, letter in enumerate(letters):
            if batch.append(timestamp=None, key=letter.key, value=letter.value, headers=list(letter.headers)) is None:
                return batch, number
        return batch, len(letters)

    async def _send_batch(self, batch: Any, topic: str, partition: int) -> Outcome:
        try:
            await self._link.send_batch(batch, topic, partition, DELIVERY_SECS)
        except Exception as error:  # noqa: BLE001 - told with its letters
            return Outcome(refused=describe_error(error)) if send_error_kind(error) == "refused" else Outcome(error=error)
        return SENT


Advance = Callable[[int], None]


def replay_group(topic: str) -> str:
    """Return the group that keeps the progress of replays of a dead-letter topic, where none is named."""
    return f"{topic}.replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """What is to be sent back."""

    topic: str
    group: str
    to: str | None = None
    """Where all go; None: each to its own topic."""
    choice: DeadLetterFilter = field(default_factory=DeadLetterFilter)
    limit: int | None = None
    is_dry: bool = False
    """Nothing is sent, and nothing noted."""


@dataclass(slots=True)
class ReplayResult:
    """What became of the letters that were there when the replay began."""

    sent: Counter[str] = field(default_factory=Counter)
    """How many went to each topic; of a dry one, how many would."""
    sent_before: int = 0
    not_chosen: int = 0
    others: int = 0
    """Records that are no dead letters."""
    left: Counter[str] = field(default_factory=Counter)
    """How many cannot be sent, by the reason."""


async def read_replay_progress(link: AdminClient, topic: str, group: str) -> Mapping[PartitionId, ReplayProgress]:
    """Return for each partition of a dead-letter topic what replays have sent."""
    partitions, commits = await link.partitions_of(topic), await link.committed(group)
    beginnings = await link.bounds(partitions, "earliest")
    return {one: ReplayProgress.of(commits.get(one), beginnings[one]) for one in partitions}


async def replay(link: AdminClient, plan: ReplayPlan, advance: Advance, report: Callable[[BaseException], None]) -> ReplayResult:
    """Send letters back, and return what became of them; `advance` is told how many more were sent.

    UsageError for a plan that cannot be; FatalError for what ends it before its time: what was sent until then is noted.
    """
    partitions = await link.partitions_of(plan.topic)
    if plan.to == plan.topic:
        raise UsageError(f"{plan.topic!r} is the dead-letter topic itself", hint="Name another topic to send to.")
    if plan.to is not None:
        await link.partitions_of(plan.to)
    members = (await link.group(plan.group)).members
    if members and not plan.is_dry:
        hint = f"Wait for the end of the other replay; of one that was killed, {SESSION_MS // 1000} s. Another --group sends all anew."
        raise UsageError(f"group {plan.group!r} has a member: {members[0].client_id} on {members[0].host}", hint=hint)
    if plan.is_dry:
        return await _Replay(link, plan, None, advance).run_through(partitions)
    sender = DeadLetterSender(link.config, report)
    try:
        with translate_errors(link.config, "sending dead letters back"):
            await sender.start()
        return await _Replay(link, plan, sender, advance).run_through(partitions)
    finally:
        await sender.stop()


class _Replay:
    """One pass over the letters that are there. Without a sender it only counts."""

    def __init__(self, link: AdminClient, plan: ReplayPlan, sender: DeadLetterSender | None, advance: Advance) -> None:
        self._link, self._plan, self._sender, self._advance = link, plan, sender, advance
        self._known_topics: Collection[str] = ()
        self._progress: dict[PartitionId, ReplayProgress] = {}
        self._result = ReplayResult()

    async def run_through(self, partitions: Sequence[PartitionId]) -> ReplayResult:
        """Read all letters, and send those that are meant."""
        self._known_topics = await self._link.topics()
        async with self._place(partitions) as place:  # from here on nobody else commits as this group
            ends = await self._link.bounds(partitions, "latest")
            self._progress.update(await read_replay_progress(self._link, self._plan.topic, self._plan.group))
            starts = {one: progress.offset for one, progress in self._progress.items()}
            self._check(starts, ends)
            async with place.standing_at(starts) as consumer:
                await self._send_all(place, records_until(self._link.config, consumer, starts, ends))
        return self._result

    def _place(self, partitions: Collection[PartitionId]) -> AbstractAsyncContextManager[Place]:
        if self._plan.is_dry:
            return nullcontext(Place(self._link))
        return alone(self._link, self._plan.topic, self._plan.group, partitions)

    async def _send_all(self, place: Place, found: AsyncIterator[tuple[PartitionId, Sequence[Any]]]) -> None:
        try:
            async for partition, records in found:
                await place.undisturbed(self._send_chunk(place, partition, records))
                if self._has_enough:
                    break
        except FatalError:
            place.check()  # it may be why
            raise

    def _check(self, starts: Mapping[PartitionId, int], ends: Mapping[PartitionId, int]) -> None:
        for partition, start in starts.items():
            if start > ends[partition]:
                text = f"group {self._plan.group!r} has sent {partition} up to offset {start}, and the topic ends at {ends[partition]}"
                raise UsageError(text, hint="The topic was made anew: name another --group, or reset this one to earliest.")

    @property
    def _has_enough(self) -> bool:
        return self._plan.limit is not None and self._result.sent.total() >= self._plan.limit

    async def _send_chunk(self, place: Place, partition: PartitionId, records: Sequence[Any]) -> None:
        """Send what is to be sent of these records, note it, and only then raise what went wrong."""
        room = None if self._plan.limit is None else self._plan.limit - self._result.sent.total()
        chosen: dict[int, tuple[str, StoredDeadLetter]] = {}
        judged = []
        for record in records:
            if room is not None and len(chosen) >= room:
                break
            judged.append(record.offset)
            if (found := self._to_send(partition, record)) is not None:
                chosen[record.offset] = found
        self._progress[partition] = progress = self._with_room(partition, judged, chosen)
        outcomes = await self._send(chosen)
        for offset in judged:
            progress.note(offset, is_sent=progress.is_sent(offset) or outcomes.get(offset) == SENT)
        self._count(chosen, outcomes)
        commit = progress.commit()
        if commit is None:
            raise EngineBug("a replay has sent more than it can note", partition=partition, offset=progress.offset, runs=progress.runs)
        await place.commit(partition, commit)
        error = next((outcome.error for outcome in outcomes.values() if outcome.error is not None), None)
        if isinstance(error, FatalError):
            raise error
        if error is not None:
            with translate_errors(self._link.config, "sending dead letters back"):
                raise error

    def _to_send(self, partition: PartitionId, record: Any) -> tuple[str, StoredDeadLetter] | None:
        """Where a record goes, as what; None where it stays. Counts why."""
        if self._progress[partition].is_sent(record.offset):
            self._result.sent_before += 1
            return None
        if not is_dead_letter(record):
            self._result.others += 1
            return None
        stored = stored_dead_letter(record)
        if not self._plan.choice.fits(stored):
            self._result.not_chosen += 1
            return None
        topic = self._plan.to or stored.letter.topic
        if not stored.letter.is_whole:
            self._result.left["too large for a dead letter, so only its beginning is there"] += 1
        elif topic not in self._known_topics:
            self._result.left[f"topic {topic!r} is not there"] += 1
        else:
            return topic, stored
        return None

    def _with_room(self, partition: PartitionId, judged: Sequence[int], chosen: Collection[int]) -> ReplayProgress:
        """Return the progress; UsageError where its commit could not hold what is about to be sent, which would be sent twice then."""
        progress = self._progress[partition]
        for sent in (set(chosen), set(list(chosen)[::2])):  # all, and the worst that refusals can make of it
            trial = progress.copy()
            for offset in judged:
                trial.note(offset, is_sent=offset in sent or trial.is_sent(offset))
            if trial.commit() is not None:
                continue
            text = f"what was sent of {partition} is too scattered to be noted in a commit of group {self._plan.group!r}"
            raise UsageError(text, hint="What was sent until now is noted. Send the others too, or choose with a --group of its own.")
        return progress

    async def _send(self, chosen: Mapping[int, tuple[str, StoredDeadLetter]]) -> dict[int, Outcome]:
        if self._sender is None:
            return dict.fromkeys(chosen, SENT)
        letters = [(topic, stored.letter) for topic, stored in chosen.values()]
        with translate_errors(self._link.config, "sending dead letters back"):
            outcomes = await self._sender.send(letters, to_own_partition=self._plan.to is None)
        return dict(zip(chosen, outcomes, strict=True))

    def _count(self, chosen: Mapping[int, tuple[str, StoredDeadLetter]], outcomes: Mapping[int, Outcome]) -> None:
        sent = [chosen[offset][0] for offset, outcome in outcomes.items() if outcome == SENT]
        self._result.sent.update(sent)
        self._result.left.update(f"refused by the brokers: {outcome.refused}" for outcome in outcomes.values() if outcome.refused)
        self._advance(len(sent))
