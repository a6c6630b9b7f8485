"""Sends each dead letter back to its topic once. A separate consumer group stores the progress in its commits."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, NamedTuple

from engine.errors import EngineBug, FatalError, UsageError
from engine.kafka.client.admin_client import AdminClient, ClusterConfig, translate_errors
from engine.kafka.client.errors import Report, describe_error, send_error_kind
from engine.kafka.client.partition import PartitionId
from engine.kafka.client.producer_link import ProducerLink, producer_options
from engine.kafka.dead_letters.dead_letter import DeadLetter, is_dead_letter
from engine.kafka.dead_letters.dead_letter_list import DeadLetterFilter, StoredDeadLetter, records_until, stored_dead_letter
from engine.kafka.dead_letters.replay_member import SESSION_MS, DryMember, ReplayProgress, join_alone
from engine.kafka.sink.records import java_partition

DELIVERY_SECS: Final = 30.0


class Outcome(NamedTuple):
    """Result of sending one letter. Both fields are None if the letter was written."""

    refused: str | None = None
    """Reason why no broker accepts the letter."""
    error: Exception | None = None
    """Error of the attempt. The letter may or may not be written, and other letters may get the same error."""


SENT: Final = Outcome()


class DeadLetterSender:
    """Producer of a replay. Writes each letter to the partition of its record. If this partition is unknown, the key selects one."""

    def __init__(self, config: ClusterConfig, report: Report) -> None:
        options = producer_options(config, f"{config.client_id}.replay")
        self._link = ProducerLink(config, options, writing="sending dead letters back", report=report)
        self._turns = count()

    async def start(self) -> None:
        """Connect. Raise FatalError for a permanent error, and TimeoutError after `DELIVERY_SECS`."""
        async with asyncio.timeout(DELIVERY_SECS):
            await self._link.start()

    async def stop(self) -> None:
        """Disconnect."""
        await self._link.stop()

    async def send_letters(self, letters: Sequence[tuple[str, DeadLetter]], *, to_own_partition: bool) -> list[Outcome]:
        """Write letters to these topics. Return the outcome of each. Letters for one partition keep their order."""
        places: dict[tuple[str, int], list[int]] = {}
        for number, (topic, letter) in enumerate(letters):
            places.setdefault((topic, await self._partition(topic, letter, to_own_partition=to_own_partition)), []).append(number)
        outcomes = [SENT] * len(letters)

        async def send_there(topic: str, partition: int, numbers: Sequence[int]) -> None:
            results = await self._send_to_partition(topic, partition, [letters[one][1] for one in numbers])
            for number, outcome in zip(numbers, results, strict=True):
                outcomes[number] = outcome

        await asyncio.gather(*(send_there(*place, numbers) for place, numbers in places.items()))
        return outcomes

    async def _partition(self, topic: str, letter: DeadLetter, *, to_own_partition: bool) -> int:
        async with asyncio.timeout(2 * DELIVERY_SECS):  # the lookup waits for brokers without a limit, but a command must end
            partitions = await self._link.partitions_of(topic, DELIVERY_SECS)
        if to_own_partition and letter.partition in partitions:
            return letter.partition
        return partitions[next(self._turns) % len(partitions)] if letter.key is None else java_partition(letter.key, partitions)

    async def _send_to_partition(self, topic: str, partition: int, letters: Sequence[DeadLetter]) -> list[Outcome]:
        """Write letters to one partition, batch after batch. Stop at the first error that affects more than one letter."""
        outcomes: list[Outcome] = []
        while len(outcomes) < len(letters):
            batch, records = self._filled_batch(letters[len(outcomes) :])
            outcome = await self._send_batch(batch, topic, partition)
            if outcome.refused is not None and records > 1:  # the broker may accept the letters one by one
                for letter in letters[len(outcomes) : len(outcomes) + records]:
                    outcomes.append(await self._send_batch(self._filled_batch([letter])[0], topic, partition))
            else:
                outcomes += [outcome] * records
            if failed := next((one for one in outcomes if one.error is not None), None):
                outcomes += [failed] * (len(letters) - len(outcomes))
        return outcomes

    def _filled_batch(self, letters: Sequence[DeadLetter]) -> tuple[Any, int]:
        """Return a batch of the first letters that fit, and their number."""
        batch = self._link.new_batch()
        for number, letter in enumerate(letters):
            if batch.append(timestamp=None, key=letter.key, value=letter.value, headers=list(letter.headers)) is None:
                return batch, number
        return batch, len(letters)

    async def _send_batch(self, batch: Any, topic: str, partition: int) -> Outcome:
        try:
            await self._link.send_batch(batch, topic, partition, DELIVERY_SECS)
        except Exception as error:  # noqa: BLE001 - returned with its letters
            return Outcome(refused=describe_error(error)) if send_error_kind(error) == "refused" else Outcome(error=error)
        return SENT


Advance = Callable[[int], None]


def replay_group(topic: str) -> str:
    """Return the default group for the progress of replays of a dead-letter topic."""
    return f"{topic}.replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """Letters to send back, and their target."""

    topic: str
    """The dead-letter topic."""
    group: str
    """Consumer group that stores the progress."""
    to: str | None = None
    """Topic for all letters. None sends each letter to its own topic."""
    choice: DeadLetterFilter = field(default_factory=DeadLetterFilter)
    limit: int | None = None
    """Number of letters to send at most. None: no limit."""
    is_dry: bool = False
    """Only count the letters. Send and commit nothing."""


@dataclass(slots=True)
class ReplayResult:
    """Counts of the letters that were in the topic at the start of the replay."""

    sent: Counter[str] = field(default_factory=Counter)
    """Sent letters by topic. A dry replay counts the letters that it would send."""
    sent_before: int = 0
    not_chosen: int = 0
    others: int = 0
    """Records that are no dead letters."""
    left: Counter[str] = field(default_factory=Counter)
    """Letters that cannot be sent, by reason."""


async def read_replay_progress(admin: AdminClient, topic: str, group: str) -> Mapping[PartitionId, ReplayProgress]:
    """Return the progress of earlier replays for each partition of a dead-letter topic."""
    partitions, commits = await admin.partitions_of(topic), await admin.committed(group)
    beginnings = await admin.bounds(partitions, "earliest")
    return {one: ReplayProgress.of_commit(commits.get(one), beginnings[one]) for one in partitions}


async def replay(admin: AdminClient, plan: ReplayPlan, advance: Advance, report: Callable[[BaseException], None]) -> ReplayResult:
    """Send letters back, and return the counts. advance: called with the number of sent letters after each chunk.

    Raises UsageError for an impossible plan, and FatalError for a permanent error. After an error, the group still stores the progress so
    far.
    """
    partitions = await admin.partitions_of(plan.topic)
    if plan.to == plan.topic:
        raise UsageError(f"{plan.topic!r} is the dead-letter topic itself", hint="Name another topic to send to.")
    if plan.to is not None:
        await admin.partitions_of(plan.to)
    members = (await admin.group(plan.group)).members
    if members and not plan.is_dry:
        hint = f"Wait until the other replay ends. If it was killed, wait {SESSION_MS // 1000} s. Another --group sends all letters again."
        raise UsageError(f"group {plan.group!r} has a member: {members[0].client_id} on {members[0].host}", hint=hint)
    if plan.is_dry:
        return await _Replay(admin, plan, None, advance).run_through(partitions)
    sender = DeadLetterSender(admin.config, report)
    try:
        with translate_errors(admin.config, "sending dead letters back"):
            await sender.start()
        return await _Replay(admin, plan, sender, advance).run_through(partitions)
    finally:
        await sender.stop()


class _Replay:
    """One pass over the existing letters. Without a sender, the letters are only counted."""

    def __init__(self, admin: AdminClient, plan: ReplayPlan, sender: DeadLetterSender | None, advance: Advance) -> None:
        self._admin, self._plan, self._sender, self._advance = admin, plan, sender, advance
        self._known_topics: Collection[str] = ()
        self._progress: dict[PartitionId, ReplayProgress] = {}
        self._result = ReplayResult()

    async def run_through(self, partitions: Sequence[PartitionId]) -> ReplayResult:
        """Read all letters, and send the chosen ones."""
        self._known_topics = await self._admin.topics()
        async with self._member(partitions) as member:  # from here on, no other process commits as this group
            ends = await self._admin.bounds(partitions, "latest")
            self._progress.update(await read_replay_progress(self._admin, self._plan.topic, self._plan.group))
            starts = {one: progress.offset for one, progress in self._progress.items()}
            self._check_starts(starts, ends)
            async with member.reading_from(starts) as consumer:
                await self._send_all(member, records_until(self._admin.config, consumer, starts, ends))
        return self._result

    def _member(self, partitions: Collection[PartitionId]) -> AbstractAsyncContextManager[DryMember]:
        if self._plan.is_dry:
            return nullcontext(DryMember(self._admin))
        return join_alone(self._admin, self._plan.topic, self._plan.group, partitions)

    async def _send_all(self, member: DryMember, found: AsyncIterator[tuple[PartitionId, Sequence[Any]]]) -> None:
        try:
            async for partition, records in found:
                await member.run_to_end(self._send_chunk(member, partition, records))
                if self._has_enough:
                    break
        except FatalError:
            member.check_alone()  # another member of the group may be the reason
            raise

    def _check_starts(self, starts: Mapping[PartitionId, int], ends: Mapping[PartitionId, int]) -> None:
        for partition, start in starts.items():
            if start > ends[partition]:
                text = f"group {self._plan.group!r} has sent {partition} up to offset {start}, but the topic ends at {ends[partition]}"
                raise UsageError(text, hint="The topic was created again. Name another --group, or reset this group to earliest.")

    @property
    def _has_enough(self) -> bool:
        return self._plan.limit is not None and self._result.sent.total() >= self._plan.limit

    async def _send_chunk(self, member: DryMember, partition: PartitionId, records: Sequence[Any]) -> None:
        """Send the chosen letters of these records and commit the progress. Raise an error only after the commit."""
        room = None if self._plan.limit is None else self._plan.limit - self._result.sent.total()
        chosen: dict[int, tuple[str, StoredDeadLetter]] = {}
        judged = []
        for record in records:
            if room is not None and len(chosen) >= room:
                break
            judged.append(record.offset)
            if (found := self._choose_letter(partition, record)) is not None:
                chosen[record.offset] = found
        self._progress[partition] = progress = self._checked_progress(partition, judged, chosen)
        outcomes = await self._send_chosen(chosen)
        for offset in judged:
            progress.note_record(offset, is_sent=progress.is_sent(offset) or outcomes.get(offset) == SENT)
        self._count_outcomes(chosen, outcomes)
        commit = progress.next_commit()
        if commit is None:
            raise EngineBug(
                "a replay has sent more than a commit can hold", partition=partition, offset=progress.offset, runs=progress.runs
            )
        await member.commit_progress(partition, commit)
        error = next((outcome.error for outcome in outcomes.values() if outcome.error is not None), None)
        if isinstance(error, FatalError):
            raise error
        if error is not None:
            with translate_errors(self._admin.config, "sending dead letters back"):
                raise error

    def _choose_letter(self, partition: PartitionId, record: Any) -> tuple[str, StoredDeadLetter] | None:
        """Return the target topic and the letter of a record. If the letter is not sent, return None and count the reason."""
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
            self._result.left["the letter holds only the beginning of its record, which was too large"] += 1
        elif topic not in self._known_topics:
            self._result.left[f"topic {topic!r} does not exist"] += 1
        else:
            return topic, stored
        return None

    def _checked_progress(self, partition: PartitionId, judged: Sequence[int], chosen: Collection[int]) -> ReplayProgress:
        """Return the progress.

        Raise UsageError if a commit cannot store all chosen letters, because a letter that is not stored would be sent twice.
        """
        progress = self._progress[partition]
        for sent in (set(chosen), set(list(chosen)[::2])):  # worst cases: all letters are sent, or every second letter is refused
            trial = progress.copy()
            for offset in judged:
                trial.note_record(offset, is_sent=offset in sent or trial.is_sent(offset))
            if trial.next_commit() is not None:
                continue
            text = f"the sent letters of {partition} are too scattered for a commit of group {self._plan.group!r}"
            hint = (
                "The commits contain the letters that were sent so far. Send the other letters too, or use another --group for this filter."
            )
            raise UsageError(text, hint=hint)
        return progress

    async def _send_chosen(self, chosen: Mapping[int, tuple[str, StoredDeadLetter]]) -> dict[int, Outcome]:
        if self._sender is None:
            return dict.fromkeys(chosen, SENT)
        letters = [(topic, stored.letter) for topic, stored in chosen.values()]
        with translate_errors(self._admin.config, "sending dead letters back"):
            outcomes = await self._sender.send_letters(letters, to_own_partition=self._plan.to is None)
        return dict(zip(chosen, outcomes, strict=True))

    def _count_outcomes(self, chosen: Mapping[int, tuple[str, StoredDeadLetter]], outcomes: Mapping[int, Outcome]) -> None:
        sent = [chosen[offset][0] for offset, outcome in outcomes.items() if outcome == SENT]
        self._result.sent.update(sent)
        self._result.left.update(f"refused by the brokers: {outcome.refused}" for outcome in outcomes.values() if outcome.refused)
        self._advance(len(sent))
