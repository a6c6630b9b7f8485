"""Runs batch bolts and committers in a topology without batches (EO-9). The interval between two checkpoints is their batch.

Each interval has an instance of the user's bolt. The attempt of its batch is (txid + 1, round) of the checkpoint that ends the interval.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, cast

from engine.api import BoltBase, Burst, FailTuple, Tuple
from engine.api import BurstBolt as TrackedBurstBolt
from engine.errors import BadRows, EngineBug, FatalError, UsageError
from engine.kernel import Burst as CompiledBurst
from engine.kernel import Source, failed_calls, make_tuple
from engine.raised import raised_text
from engine.safe_text import safe_repr, safe_str
from engine.state.codec import Codec, Unencodable
from engine.topology import ComponentSpec
from engine.topology.interval_output import IntervalOutput, Published, RefusedRow
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_bolt import BURST_SETTLER, BatchBolt, BurstBolt, FailedBatch
from engine.transactional.interval import (
    FIRST_TXID,
    Interval,
    IntervalCollector,
    TaskOfBefore,
    attempt_of,
    check_not_all_refused,
    decoded_rows,
    encoded_rows,
    refused_entries,
    row_source,
    rows_to_publish,
    stages_itself,
    without_entries,
)
from engine.transactional.resources import OpenResources

ROWS_A_TURN: Final = 1000
"""Rows that are executed again between two turns of the event loop."""


class IntervalBolt(TrackedBurstBolt, IntervalOutput):
    """The bolt of a task, which gives the rows of each interval to an instance of the user's bolt."""

    def __init__(self, spec: ComponentSpec, codec: Codec, *, commits: bool, may_count_with_failures: bool) -> None:
        self._spec = spec
        self._codec = codec
        self._commits = commits
        self._keeps_taken = may_count_with_failures or spec.settings.holds_calls
        if spec.settings.holds_calls:
            self.burst_rows = 1  # so that a call that raises has taken no other row
        self._attempt = TransactionAttempt(0, 0)
        self._interval: Interval | None = None
        self._staged: Interval | None = None
        """The interval whose checkpoint is not complete."""
        self._sources: dict[tuple[int, str], Source] = {}

    def prepare(self) -> None:
        self._resources = OpenResources(self.context)

    async def cleanup(self) -> None:
        await self._drop_intervals()
        await self._resources.close()

    async def pre_rollback(self) -> None:
        """Forget the rows. The connections to the target stay open."""
        await self._drop_intervals()

    async def _drop_intervals(self) -> None:
        intervals, self._interval, self._staged = (self._interval, self._staged), None, None
        for interval in intervals:
            if interval is not None:
                await self._clean_up(interval)

    # The rows of an interval

    def begin_interval(self, txid: int, round_: int) -> None:
        self._attempt = TransactionAttempt(txid + FIRST_TXID, round_)

    @property
    def has_rows(self) -> bool:
        return self._interval is not None and self._interval.has_rows

    def execute_many(self, burst: Burst) -> Awaitable[None] | None:
        steps = self._execute_burst(burst)
        awaited = next(steps, None)
        return None if awaited is None else _await_steps(steps, awaited)

    def _execute_burst(self, burst: Burst) -> Iterator[Awaitable[object]]:
        """Execute the rows, and yield what is to be awaited. A row whose call raises fails alone."""
        interval = self._interval
        if interval is None:
            interval = self._new_interval(self._attempt, self.context, self._resources)
            yield from _awaited(interval.instance.prepare())
            self._interval = interval
        tuples = self._with_attempt(interval.attempt, burst) if interval.instance.reads_attempt else burst
        rows = list(zip(burst, tuples, strict=True))
        done: list[Tuple] = []
        burst_error: Exception | None = None
        if isinstance(interval.instance, BurstBolt) and len(rows) > 1:
            try:
                yield from _awaited(interval.instance.execute_many(_burst_of([given for _, given in rows])))
                rows, done = [], [tup for tup, _ in rows]
            except FatalError:
                raise
            except Exception as error:  # noqa: BLE001 - found again below, with the row that raises
                interval.is_spoiled, burst_error = True, error
        execute = interval.instance.execute
        for tup, given in rows:
            try:
                result = execute(given)
                if result is not None:
                    yield from _awaited(result)
            except FatalError:
                raise
            except Exception as error:  # noqa: BLE001 - user code, and its row fails
                self._note_failed(interval, burst, tup, error)
            else:
                done.append(tup)
        if burst_error is not None and len(done) == len(burst) and not (self._keeps_encoded(interval) or self._keeps_taken):
            interval.lost = burst_error  # the instance may have taken rows twice, and no row fails
        self._keep(interval, burst, done)

    def _keeps_encoded(self, interval: Interval) -> bool:
        """Tell whether the encoded rows are the output that is staged."""
        return self._commits and not stages_itself(interval.instance)

    def _note_failed(self, interval: Interval, burst: Burst, tup: Tuple, error: Exception) -> None:
        interval.is_spoiled = True
        if not tup.roots and self._fails_for_good(tup, error):  # type: ignore[attr-defined]
            interval.lost = error
        if len(burst) == 1:
            raise error
        if not isinstance(error, FailedBatch) or error.report:
            self.collector.report_error(error)
        burst.fail(tup, raised_text(error))

    def _fails_for_good(self, tup: Tuple, error: Exception) -> bool:
        """Tell whether the row fails. Else its call runs again (SV-13), or the row is diverted (SV-14)."""
        settings = self._spec.settings
        return not settings.diverts and (isinstance(error, FailTuple) or failed_calls(cast(Any, tup)) >= settings.retries)

    def _keep(self, interval: Interval, burst: Burst, rows: list[Tuple]) -> None:
        """Keep rows, so that they can be executed again. Rows that cannot be encoded fail."""
        interval.has_rows = interval.has_rows or bool(rows)
        if not rows:
            return
        if not self._keeps_encoded(interval):
            if self._keeps_taken:
                interval.taken += rows
            return
        try:
            interval.kept.append(encoded_rows(self._codec, rows))
        except Unencodable:
            for tup in rows:
                try:
                    interval.kept.append(encoded_rows(self._codec, [tup]))
                except Unencodable as error:
                    hint = 'Emit other types, or choose Config(state_codec="pickle").'
                    text = f"the committer {self._spec.component_id!r} cannot store {safe_repr(tup.values)}: {safe_str(error)}"
                    self._note_failed(interval, burst, tup, UsageError(text, hint=hint))

    def _with_attempt(self, attempt: TransactionAttempt, burst: Iterable[Tuple]) -> list[Tuple]:
        """Return the tuples with the attempt in front of their values (TX-1)."""
        sources, made = self._sources, []
        for tup in burst:
            name = (tup.source_task, tup.stream)
            source = sources.get(name)
            if source is None:
                source = sources[name] = row_source(tup.source_component, tup.stream, tup.source_task, tup.fields)
            made.append(make_tuple((attempt, *tup.values), source))
        return made  # type: ignore[return-value]

    # Instances

    def _new_interval(self, attempt: TransactionAttempt, context: Any, resources: OpenResources) -> Interval:
        instance: BatchBolt = self._spec.factory.create()
        instance.attempt = attempt
        instance.context = context
        instance.resources = resources
        instance.collector = IntervalCollector(self.collector, self._spec, may_emit=not self._commits)
        return Interval(attempt, instance)

    async def _replayed(
        self,
        attempt: TransactionAttempt,
        blobs: Sequence[bytes],
        context: Any,
        resources: OpenResources,
        left_out: Collection[int] = (),
    ) -> Interval:
        """Return an interval with a new instance that has executed these rows, or has the pieces that were staged.

        left_out: numbers of rows that are not executed.
        """
        interval = self._new_interval(attempt, context, resources)
        try:
            await _maybe(interval.instance.prepare())
            if stages_itself(interval.instance):
                interval.pieces = without_entries(map(self._codec.decode, blobs), left_out)
                return interval
            numbers = count()
            for blob in blobs:
                for given in decoded_rows(self._codec, attempt, blob):
                    if next(numbers) not in left_out:
                        await _maybe(interval.instance.execute(given))
                await asyncio.sleep(0)
        except BaseException:
            await self._clean_up(interval)
            raise
        interval.kept = list(blobs)
        return interval

    async def _clean_up(self, interval: Interval) -> None:
        if type(interval.instance).cleanup is BoltBase.cleanup:
            return
        try:
            await _maybe(interval.instance.cleanup())
        except Exception as error:  # noqa: BLE001 - user code, whose interval is over
            self.collector.report_error(error)

    # The checkpoint

    async def stage(self) -> Sequence[bytes] | None:
        interval, self._interval = self._interval, None
        if interval is None:
            interval = await self._replayed(self._attempt, (), self.context, self._resources)
        if interval.attempt != self._attempt:
            raise EngineBug(f"{self._spec.where}: the interval {interval.attempt} ends at the checkpoint of {self._attempt}")
        if interval.lost is not None:
            raise interval.lost
        if interval.is_spoiled:
            interval = await self._executed_again(interval)
        if not self._commits:
            await _maybe(interval.instance.finish_batch())
            await self._clean_up(interval)
            return None
        if stages_itself(interval.instance):
            return await self._staged_pieces(interval)
        self._staged = interval
        return interval.kept

    async def _executed_again(self, spoiled: Interval) -> Interval:
        """Return the interval with a new instance, in which no call has left a part of its row. What the rows emit has been emitted."""
        await self._clean_up(spoiled)
        again = await self._replayed(spoiled.attempt, spoiled.kept, self.context, self._resources)
        collector: Any = again.instance.collector
        collector.is_mute = True
        for number, given in enumerate(self._with_attempt(spoiled.attempt, spoiled.taken), 1):
            await _maybe(again.instance.execute(given))
            if number % ROWS_A_TURN == 0:
                await asyncio.sleep(0)
        collector.is_mute = False
        return again

    async def _staged_pieces(self, interval: Interval) -> Sequence[bytes]:
        blobs, pieces = [], interval.instance.stage()  # type: ignore[attr-defined]
        if not isinstance(pieces, Iterable):
            text = f"the committer {self._spec.component_id!r}: stage() returned {safe_repr(pieces)}, which is not iterable"
            raise FatalError(text, hint="Write a plain method that returns or yields the pieces. What takes time belongs into publish().")
        for piece in pieces:
            try:
                blobs.append(self._codec.encode(piece))
            except Unencodable as error:
                text = f"the committer {self._spec.component_id!r} cannot store its output {safe_repr(piece)}: {safe_str(error)}"
                raise FatalError(text, hint='Emit other types, or choose Config(state_codec="pickle").') from None
            interval.pieces.append(piece)
            await asyncio.sleep(0)
        self._staged = interval
        return blobs

    async def publish(self, output: Any) -> Sequence[RefusedRow]:
        attempt = attempt_of(output)
        if (output.task_index, output.tasks) != (self.context.task_index, self.context.tasks):
            return await self._publish_for(output, attempt)
        interval, self._staged = self._staged, None
        if interval is None or interval.attempt != attempt or output.left_out:
            interval = await self._replayed(attempt, output.blobs, self.context, self._resources, output.left_out)
        return await self._finish_or_refuse(interval, output)

    async def _publish_for(self, output: Any, attempt: TransactionAttempt) -> Sequence[RefusedRow]:
        """Publish what a task of an earlier run has staged, under its own number, because the parallelism has changed since."""
        context = TaskOfBefore(self.context, output.task_index, output.tasks)
        resources = OpenResources(context)
        try:
            return await self._finish_or_refuse(
                await self._replayed(attempt, output.blobs, context, resources, output.left_out), output
            )
        finally:
            await resources.close()

    async def _finish_or_refuse(self, interval: Interval, output: Any) -> Sequence[RefusedRow]:
        try:
            await self._finish(interval)
        except BadRows as error:
            if not error.rows:
                raise
            if not stages_itself(interval.instance):
                return self._refused(output, error)
            if not getattr(interval.instance, "names_bad_entries", False):
                raise
            pieces = list(map(self._codec.decode, output.blobs))
            check_not_all_refused(self._spec.where, error, sum(map(len, pieces)) - len(output.left_out))
            return refused_entries(pieces, output.left_out, error, self._spec.component_id)
        return ()

    def _refused(self, output: Any, error: BadRows) -> Sequence[RefusedRow]:
        published = list(rows_to_publish(self._codec, output))
        strangers = [number for number in error.rows if not 0 <= number < len(published)]
        if strangers:
            text = f"{self._spec.where}: BadRows names row {strangers[0]}, but this instance has executed {len(published)} rows"
            raise FatalError(text, hint="Number the rows from 0, in the order of execute().") from error
        check_not_all_refused(self._spec.where, error, len(published))
        rows = ((published[number], error.errors[number]) for number in error.rows)
        return [RefusedRow(number, tup.source_component, tup.stream, tup.values[1:], text) for (number, tup), text in rows]

    async def _finish(self, interval: Interval) -> None:
        try:
            if stages_itself(interval.instance):
                await _maybe(interval.instance.publish(interval.pieces))  # type: ignore[attr-defined]
            else:
                await _maybe(interval.instance.finish_batch())
        finally:
            await self._clean_up(interval)

    async def published(self) -> Published | None:
        instance = self._new_interval(self._attempt, self.context, self._resources).instance
        read = getattr(instance, "published_txid", None)
        return None if read is None else Published(await _maybe(read()) - FIRST_TXID, getattr(instance, "refuses_gaps", False))

    async def forget(self) -> None:
        """Let the target forget all txids (EO-11). Raises UsageError if the class of the committer cannot do that."""
        interval = self._new_interval(self._attempt, self.context, self._resources)
        forget = getattr(interval.instance, "forget", None)
        if forget is None:
            text = f"committer {self._spec.component_id!r}: {type(interval.instance).__name__} has no method forget()"
            hint = "Remove the number of the newest batch from its target by hand, write the method, or begin with another target."
            raise UsageError(text, hint=hint)
        await _maybe(forget())


def _burst_of(rows: list[Tuple]) -> Any:
    return CompiledBurst(rows, BURST_SETTLER)  # type: ignore[arg-type]


def _awaited(result: object) -> Iterator[Awaitable[object]]:
    """Yield the result of a call if it is to be awaited."""
    if result is None:
        return
    if not inspect.isawaitable(result):
        raise UsageError(f"a batch bolt returned {safe_repr(result)}", hint="It emits by self.collector.emit(...) and returns None.")
    yield result


async def _await_steps(steps: Iterator[Awaitable[object]], awaited: Awaitable[object]) -> None:
    """Await what the generator yields, and raise the errors in it."""
    waits: Awaitable[object] | None = awaited
    try:
        while waits is not None:
            try:
                await waits
            except Exception as error:  # noqa: BLE001 - handled by the generator
                try:
                    waits = steps.throw(error)  # type: ignore[attr-defined]
                except StopIteration:
                    return
            else:
                waits = next(steps, None)
    finally:
        steps.close()  # type: ignore[attr-defined]


async def _maybe(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


@dataclass(frozen=True, slots=True)
class IntervalFactory:
    """Makes the bolts of a component of batch bolts, in a topology without batches."""

    spec: ComponentSpec
    codec: Codec
    commits: bool
    may_count_with_failures: bool
    """An interval may count although a row has failed, because a source that cannot rewind repeats the row itself (CP-5)."""

    def create(self) -> IntervalBolt:
        """Return a new bolt."""
        return IntervalBolt(self.spec, self.codec, commits=self.commits, may_count_with_failures=self.may_count_with_failures)
