"""Kill points of a transactional process: the steps of both phases."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from engine.names import BATCH_STREAM, COMMIT_STREAM
from tests.kills.moments import after, before, between, half_way, in_flight, in_transaction, when_done
from tests.kills.steps import Step
from tests.transactional.kills.combinations import STORES, Combination

# Filters of calls


def on(stream: str) -> Callable[..., bool]:
    """Return a filter for tuples that the coordinator sends on this stream."""
    return lambda coordinator, values, tree, sent_on, *rest: sent_on == stream


def of_tree(name: str) -> Callable[..., bool]:
    """Return a filter for acks of trees of this kind."""
    return lambda coordinator, message_id: message_id.tree == name


def is_last(state: Any, record: Any, *rest: Any) -> bool:
    """Tell whether a save is the one at the end of a run."""
    return record.next_output is None


def is_no_last(state: Any, record: Any, *rest: Any) -> bool:
    """Tell whether a save is one at the beginning of a commit phase."""
    return record.next_output is not None


def run_for(component: str) -> Callable[..., bool]:
    """Return a filter for runs of the bolt of this component."""
    return lambda runner, *rest: runner._wiring.spec.component_id == component


def updates(component: str, task: int | None = None) -> Callable[..., bool]:
    """Return a filter for updates by this component, or by one task of it."""
    return lambda values, *rest: values._context.component_id == component and task in (None, values._context.task_index)


def runs(name: str) -> Callable[..., bool]:
    """Return a filter for runs of this script of the values on Redis."""

    def is_meant(link: Any, script: Any, *rest: Any) -> bool:
        from engine.state.redis import values as redis_values  # whose client other processes do not load

        return script is getattr(redis_values, name)

    return is_meant


def writes_values(file: Any, work: Any) -> bool:
    """Tell whether a transaction in a SQLite file writes the values of a batch."""
    return "SqliteValueStore.write" in work.__qualname__


def has_rows(emitter: Any, rows: Any, *rest: Any) -> bool:
    """Tell whether more than one row is emitted."""
    return len(rows) > 1


# Filters of combinations


def anywhere(combination: Combination) -> bool:
    """Accept every combination."""
    return True


def opaque(combination: Combination) -> bool:
    """Accept combinations with a spout whose replays may differ."""
    return combination.is_opaque


def from_kafka(combination: Combination) -> bool:
    """Accept combinations with Kafka."""
    return combination.reads_kafka


def state_in(store: str) -> Callable[[Combination], bool]:
    """Return a filter for combinations with the coordinator's state in this store."""
    return lambda combination: combination.state == store


def values_in(store: str) -> Callable[[Combination], bool]:
    """Return a filter for combinations with the counts of words in this store."""
    return lambda combination: combination.values == store


def opaque_values_in(store: str) -> Callable[[Combination], bool]:
    """Return a filter for combinations with opaque counts of words in this store."""
    return lambda combination: combination.values == store and combination.is_opaque


@dataclass(frozen=True)
class TransactionStep(Step):
    """A step, and the processes that reach it."""

    where: Callable[[Combination], bool] = anywhere
    prepared_by: str | None = None
    """Step at which the process before must have died. Otherwise this step is not reached."""
    rank: int = 1
    """0: only the first processes reach it. 2: only a process that completes the run reaches it."""

    @property
    def is_rare(self) -> bool:
        """True if a process reaches it once, or a second time only after a pause in which the run may become complete."""
        return self.rank != 1 or self.prepared_by is not None or self.target.endswith((".claim", ":GroupCommits._commit"))


_COORDINATOR: Final = "engine.transactional.coordinator:Coordinator"
_STATE: Final = "engine.transactional.transactional_state:TransactionalState"
_EMITTER: Final = "engine.transactional.emitter_runner:EmitterRunner"
_COLLECTOR: Final = "engine.transactional.batch_collectors:EmitterCollector"
_RUNNER: Final = "engine.transactional.batch_runner:BatchRunner"
_PORT: Final = "engine.runtime.task_ports:ExecutorBoltPort"
_GROUP: Final = "engine.kafka.source.group_commits:GroupCommits"
_BOLTS: Final = "tests.transactional.kills.counting"
_UPDATE: Final = "engine.transactional.values.open_values:OpenValues.update"
_STORES: Final = {
    store: f"engine.state.{store}.values:{name}"
    for store, name in {"sqlite": "SqliteValueStore", "redis": "RedisValueStore", "postgres": "PostgresValueStore"}.items()
}
_REDIS: Final = "engine.state.redis.link:RedisLink.run"
_UPDATED: Final = "words: updated, not reported"


def _coordinator_steps() -> Iterator[TransactionStep]:
    yield TransactionStep("coordinator: before it claims", f"{_STATE}.claim", before)
    yield TransactionStep("coordinator: claimed, nothing begun", f"{_STATE}.claim", after)
    yield TransactionStep("coordinator: begun, before the batch tuple", f"{_COORDINATOR}._send", before, on(BATCH_STREAM))
    yield TransactionStep("coordinator: behind the batch tuple", f"{_COORDINATOR}._send", after, on(BATCH_STREAM))
    yield TransactionStep("coordinator: processed, not taken in", f"{_COORDINATOR}.ack", before, of_tree("processing"))
    yield TransactionStep("coordinator: processed, and taken in", f"{_COORDINATOR}.ack", after, of_tree("processing"))
    yield TransactionStep("coordinator: before the save", f"{_STATE}.save", before, is_no_last)
    yield TransactionStep("coordinator: saved, not answered", f"{_STATE}.save", after, is_no_last)
    yield TransactionStep("coordinator: before the commit tuple", f"{_COORDINATOR}._send", before, on(COMMIT_STREAM))
    yield TransactionStep("coordinator: behind the commit tuple", f"{_COORDINATOR}._send", after, on(COMMIT_STREAM))
    yield TransactionStep("coordinator: committed, not taken in", f"{_COORDINATOR}.ack", before, of_tree("commit"))
    yield TransactionStep("coordinator: committed, and taken in", f"{_COORDINATOR}.ack", after, of_tree("commit"))
    yield TransactionStep("coordinator: before the last save", f"{_STATE}.save", before, is_last, rank=2)
    yield TransactionStep("coordinator: in the last save", f"{_STATE}.save", in_flight, is_last, rank=2)
    yield TransactionStep("coordinator: saved the last", f"{_STATE}.save", after, is_last, rank=2)
    yield TransactionStep("coordinator: before the commit of the group", f"{_GROUP}.schedule", before, where=from_kafka)
    yield TransactionStep("coordinator: behind the commit of the group", f"{_GROUP}._commit", after, where=from_kafka)
    for store in ("sqlite", "redis", "zookeeper"):
        yield TransactionStep(f"coordinator: in the claim in {store}", f"{_STATE}.claim", in_flight, where=state_in(store))
        yield TransactionStep(f"coordinator: in the save in {store}", f"{_STATE}.save", in_flight, is_no_last, state_in(store))


def _emitter_steps() -> Iterator[TransactionStep]:
    yield TransactionStep("emitter: before emission", f"{_EMITTER}._emit", before)
    yield TransactionStep("emitter: half-way through a partition", f"{_COLLECTOR}.emit_many", half_way, has_rows)
    yield TransactionStep("emitter: a partition emitted", f"{_COLLECTOR}.take_digest", before)
    yield TransactionStep("emitter: emitted, not replied", f"{_PORT}.reply", before)
    yield TransactionStep("emitter: replied, not reported", f"{_PORT}.reply", after)
    yield TransactionStep("emitter: reported, not acked", f"{_EMITTER}._emit", after)


def _bolt_steps() -> Iterator[TransactionStep]:
    yield TransactionStep("split: first execute", f"{_BOLTS}:Split.execute", before)
    yield TransactionStep("split: finished, not reported", f"{_RUNNER}.finished", before, run_for("split"))
    yield TransactionStep("partial: first execute", f"{_BOLTS}:Partial.execute", before)
    yield TransactionStep("partial: before finish_batch", f"{_BOLTS}:Partial.finish_batch", before)
    yield TransactionStep("partial: finished, not reported", f"{_RUNNER}.finished", before, run_for("partial"))
    yield TransactionStep("partial: reported", f"{_RUNNER}.finished", after, run_for("partial"))


def _committer_steps() -> Iterator[TransactionStep]:
    yield TransactionStep("words: before the update", _UPDATE, before, updates("words"))
    yield TransactionStep("words: one task while the other is done", _UPDATE, when_done(("words", 1)), updates("words", 0))
    yield TransactionStep("words: while the total is done", _UPDATE, when_done(("total", 0)), updates("words"))
    yield TransactionStep("total: while the words are done", _UPDATE, when_done(("words", 0), ("words", 1)), updates("total"))
    yield TransactionStep("mirror: behind the words, before the update", _UPDATE, before, updates("mirror"))
    done_before = when_done(("words", 0), ("words", 1), ("total", 0))
    yield TransactionStep("mirror: while words and total are done", _UPDATE, done_before, updates("mirror"))
    for component in ("words", "total", "mirror"):
        yield TransactionStep(f"{component}: updated, not reported", f"{_RUNNER}.finished", before, run_for(component))
        yield TransactionStep(f"{component}: reported", f"{_RUNNER}.finished", after, run_for(component))


def _store_steps() -> Iterator[TransactionStep]:
    for store in STORES:
        target, where = _STORES[store], values_in(store)
        yield TransactionStep(f"{store}: before a map is made", f"{target}.create", before, where=where, rank=0)
        yield TransactionStep(f"{store}: a map is made", f"{target}.create", after, where=where, rank=0)
        yield TransactionStep(f"{store}: before its write", f"{target}.write", before, where=where)
        yield TransactionStep(f"{store}: in its write", f"{target}.write", in_flight, where=where)
        yield TransactionStep(f"{store}: written, not answered", f"{target}.write", after, where=where)
        undone = opaque_values_in(store)
        for name, moment in ("before an undo", before), ("in an undo", in_flight), ("undone", after):
            yield TransactionStep(f"{store}: {name}", f"{target}.undo", moment, where=undone, prepared_by=_UPDATED)
    transaction = "engine.state.sqlite.file:SqliteFile._transaction"
    yield TransactionStep("sqlite: written, not committed", transaction, in_transaction, writes_values, values_in("sqlite"))
    yield TransactionStep("redis: between two parts", "engine.state.redis.values:_parts", between, where=values_in("redis"))
    yield TransactionStep("redis: a part undone", _REDIS, after, runs("UNDO_PART"), opaque_values_in("redis"), _UPDATED)


STEPS: Final = {
    step.name: step for steps in (_coordinator_steps, _emitter_steps, _bolt_steps, _committer_steps, _store_steps) for step in steps()
}


def steps_of(combination: Combination) -> list[TransactionStep]:
    """Return the steps that a combination reaches."""
    return [step for step in STEPS.values() if step.where(combination)]
