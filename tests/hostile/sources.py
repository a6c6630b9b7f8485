"""Every form of source. Each emits the ten numbers of its case, and notes their verdicts."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from engine import (
    BurstSpout,
    Failure,
    FlowProducer,
    Spout,
    SpoutExhausted,
    spout,
)
from tests.hostile.case import FIELDS, BadInput, Case, Value, Verdicts
from tests.hostile.variables import begin_call, check_owner, claim
from tests.transactional.batch_topologies import BatchesEmitter


class Source(Spout):
    """Emits the numbers of a case with values as message ids."""

    output_fields = FIELDS

    def __init__(self, case: Case, verdicts: Verdicts) -> None:
        self.case, self.verdicts = case, verdicts

    def open(self) -> None:
        claim(self)
        self.left = list(self.case.values())

    def next_tuple(self) -> Any:
        check_owner(self)
        if not self.left:
            raise SpoutExhausted
        if self.case.scenario == "source raises" and self.left[0][0] == 5 and self.case.is_first("the fifth number"):
            raise BadInput(self.left[0][1])
        number, value = self.left.pop(0)
        self.case.surroundings.in_call(self.case.misdeed, number, self)
        self.collector.emit((number, value), value)

    def ack(self, message_id: Any) -> Any:
        check_owner(self)
        self.verdicts.acked.append(message_id.number)

    def fail(self, message_id: Any) -> Any:
        check_owner(self)
        self.verdicts.failed.append(message_id.number)


class ExactSource(Source):
    """Has a position, so its rows are exact in front of a state. It gets acks, and no fails (EO-6)."""

    def ack(self, message_id: Any) -> Any:
        if message_id.number in self.verdicts.acked:
            self.verdicts.acked.remove(message_id.number)  # of a pass that was rolled back (EO-4)
        super().ack(message_id)

    def seek(self, position: int | None) -> None:
        self.left = self.left[position or 0 :]

    def position(self) -> int:
        return len(list(self.case.values())) - len(self.left)


class AsyncSource(Source):
    async def next_tuple(self) -> None:
        await asyncio.sleep(0)
        super().next_tuple()

    async def ack(self, message_id: Any) -> None:
        await asyncio.sleep(0)
        super().ack(message_id)

    async def fail(self, message_id: Any) -> None:
        await asyncio.sleep(0)
        super().fail(message_id)


class BurstSource(BurstSpout):
    output_fields = FIELDS

    def __init__(self, case: Case, verdicts: Verdicts) -> None:
        self.case, self.verdicts = case, verdicts

    def open(self) -> None:
        claim(self)
        self.left = list(self.case.values())

    def next_tuples(self, limit: int) -> None:
        check_owner(self)
        if not self.left:
            raise SpoutExhausted
        if self.case.scenario == "source raises" and self.case.is_first("a burst"):
            raise BadInput(self.left[0][1])
        rows, self.left = self.left[:limit], self.left[limit:]
        for number, _ in rows:
            self.case.surroundings.in_call(self.case.misdeed, number, self)
        self.collector.emit_many(rows, [value for _, value in rows])

    def ack_many(self, message_ids: list[Any]) -> None:
        self.verdicts.acked += [value.number for value in message_ids]

    def fail(self, message_id: Any) -> None:
        self.verdicts.failed.append(message_id.number)


def generator(case: Case, verdicts: Verdicts) -> Any:
    @spout(FIELDS, max_retries=0, on_give_up=lambda row, failure: verdicts.failed.append(row[0]))
    def numbers() -> Iterator[tuple[int, Value]]:
        for row in case.values():
            check = begin_call(row[0])
            case.surroundings.in_call(case.misdeed, row[0], None)
            yield row
            check()

    return numbers


def async_generator(case: Case, verdicts: Verdicts) -> Any:
    @spout(FIELDS, max_retries=0, on_give_up=lambda row, failure: verdicts.failed.append(row[0]))
    async def numbers() -> AsyncIterator[tuple[int, Value]]:
        for row in case.values():
            check = begin_call(row[0])
            await asyncio.sleep(0)
            yield row
            check()

    return numbers


def exact_generator(case: Case, verdicts: Verdicts) -> Any:
    """Make a source that has positions, and notes no verdicts."""

    @spout(FIELDS, positions=True)
    def numbers(after: int | None) -> Iterator[tuple[int, tuple[int, Value]]]:
        for row in list(case.values())[after or 0 :]:
            check = begin_call(row[0])
            case.surroundings.in_call(case.misdeed, row[0], None)
            yield row[0] + 1, row
            check()

    return numbers


def giving_up(case: Case, verdicts: Verdicts) -> Any:
    """Make a source whose engine reports each row that is given up."""

    @spout(FIELDS, max_retries=0)
    def numbers() -> Iterator[tuple[int, Value]]:
        yield from case.values()

    return numbers


class Producer(FlowProducer):
    def __init__(self, case: Case, verdicts: Verdicts) -> None:
        self.case, self.verdicts = case, verdicts

    def records(self, after: Any) -> Iterator[tuple[int, Value]]:
        return ((number + 1, value) for number, value in self.case.values() if number + 1 > (after or 0))

    def give_up(self, position: Any, record: Any, failure: Failure) -> None:
        self.verdicts.failed.append(record.number)


class ValueEmitter(BatchesEmitter):
    """Emits the numbers of a batch with the values of the case."""

    case: Case

    def emit_batch(self, attempt: Any, metadata: int, collector: Any) -> None:
        collector.emit_many([(number, value) for number, value in self.case.values() if number % 2 == metadata % 2])
