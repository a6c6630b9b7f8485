"""Compares the results of all batches with the sequential interpreter (TX-7, TX-8)."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping

from engine import Run
from engine.runtime.bolt_executor import BoltExecutor
from engine.transactional.attempt import EPOCH_SIZE
from engine.transactional.batch_runner import BatchRunner
from tests.transactional.model.interpreter import Items, interpret
from tests.transactional.model.shape import Shape, item_of
from tests.transactional.model.stores import Files, ValueMap
from tests.transactional.model.witness import Witness


def judge_outcome(shape: Shape, witness: Witness, values: Mapping[str, ValueMap], files: Mapping[str, Files]) -> Iterator[str]:
    """Compare the committed results with the interpreter."""
    batches = witness.batches()
    if sorted(batches) != list(range(1, witness.committed + 1)):
        yield f"txid {witness.committed} is committed, and there are {sorted(batches)}"
        return
    yield from _judge_source(shape, witness)
    expected = interpret(shape, batches)
    for txid, came in expected.came.items():
        attempt = witness.final[txid]
        for name, items in came.items():
            if witness.came[attempt][name] != items:
                yield f"{attempt} is committed, and {name} {difference(witness.came[attempt][name], items)}"
    for name, each in values.items():
        stored = each.values()
        for key in expected.values[name].keys() | stored.keys():
            have, wanted = stored.get(key, Counter()), expected.values[name].get(key, Counter())
            if have != wanted:
                yield f"{each.kind} value {key} of {name} {difference(have, wanted)}"
    for name, written in files.items():
        for txid, came in expected.came.items():
            by_task = written.read(txid)
            whole: Items = sum(by_task.values(), Counter())
            if len(by_task) != shape.by_name[name].tasks or whole != came[name]:
                yield f"files of txid {txid} of {name} by the tasks {sorted(by_task)}: {difference(whole, came[name])}"


def _judge_source(shape: Shape, witness: Witness) -> Iterator[str]:
    """Every item of the source is in exactly one batch, and the items of each partition are in order."""
    every = [item for _, batch in sorted(witness.batches().items()) for item in batch]
    for name in shape.partitions:
        found = [item for item in every if item[1].startswith(f"{name}:")]
        if found != [item_of(name, number) for number in range(shape.size)]:
            yield f"of partition {name} the batches have {[item for _, item in found]}"


def difference(have: Items, wanted: Items) -> str:
    """Describe missing and surplus items."""
    return f"has {dict(have - wanted)} too much, and lacks {dict(wanted - have)}"


def watch_runners(run: Run, most_open: int, left: list[str]) -> None:
    """Check each bolt's runner just before the first task is closed, and after its own close.

    Findings go to `left`; they count if the run completes.
    """
    coordinator, *_ = run._assembled.spouts
    close_coordinator = coordinator.close

    async def look_and_close() -> None:
        machine = getattr(coordinator.component, "_machine", None)
        if machine is not None:  # else the coordinator is not open yet, so the run is not complete
            epoch = machine._last_attempt_id // EPOCH_SIZE
            for executor in run._assembled.bolts:
                left.extend(_left_at(executor, most_open, epoch))
        await close_coordinator()

    coordinator.close = look_and_close  # type: ignore[method-assign]
    for executor in run._assembled.bolts:
        executor.close = _close_and_look(executor, left)  # type: ignore[method-assign]


def _close_and_look(executor: BoltExecutor, left: list[str]) -> Callable[[], Awaitable[None]]:
    close = executor.close

    async def close_and_look() -> None:
        runner = executor.component
        await close()
        if ending := getattr(runner, "_ending", None):
            left.append(f"after its close {executor.info.component_id} (task {executor.info.task_id}) has cancelled calls: {ending}")

    return close_and_look


def _left_at(executor: BoltExecutor, most_open: int, epoch: int) -> Iterator[str]:
    """Yield the things that the runner of a completed run still holds.

    Attempts of a dead coordinator stay until a later txid comes, and perhaps none comes. `epoch` is that of the living one.
    """
    runner = executor.component
    if not isinstance(runner, BatchRunner):
        return
    name = f"{executor.info.component_id} (task {executor.info.task_id})"
    open_attempts = {attempt for attempt in [*runner._open_attempts, *runner.feed.batches] if attempt.epoch == epoch}
    if open_attempts:
        yield f"at the end {name} keeps the attempts {sorted(open_attempts)}"
    if len(runner._newest) > most_open:
        yield f"at the end {name} remembers {len(runner._newest)} txids"
    for attribute in ("_aio_tasks", "_awaited", "_finishing"):
        calls = [open_attempt for open_attempt in getattr(runner, attribute, ()) if open_attempt.attempt.epoch == epoch]
        if calls:
            yield f"at the end {name} has {attribute}: {calls}"
