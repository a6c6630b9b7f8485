"""Sends records of dead letters back to their topics: in batches, each acknowledged by all replicas."""

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any, Final, NamedTuple

from engine.kafka.client.admin_client import ClusterConfig
from engine.kafka.client.errors import Report, describe_error
from engine.kafka.client.producer_link import ProducerLink, java_partition, kind_of, producer_options
from engine.kafka.dead_letters.dead_letter import DeadLetter

DELIVERY_SECS: Final = 30.0


class Outcome(NamedTuple):
    """What became of a letter: nothing of these where it was written."""

    refused: str | None = None
    """Why no broker takes it."""
    error: Exception | None = None
    """Why it is not known to be written; others may fare no better."""


SENT: Final = Outcome()


class LetterSender:
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
            return Outcome(refused=describe_error(error)) if kind_of(error) == "refused" else Outcome(error=error)
        return SENT
