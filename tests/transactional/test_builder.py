"""Topologies that `TransactionalTopologyBuilder.build()` refuses, and its texts (GRP-5, TX-8)."""

from typing import Any

import pytest

from engine import BasicBolt, Bolt, BurstBolt, Config, Run, StatefulBolt, TopologyBuilder, TopologyError, Tuple, UsageError, bolt
from engine.transactional import BatchBolt, Committer, OpaquePartitionedTransactionalSpout, TransactionalTopologyBuilder
from tests.transactional.batch_topologies import Batches, OpaquePartitions, Sums


class Basic(BasicBolt):
    output_fields = "number"

    def execute(self, tup: Tuple) -> tuple[int]:
        return (tup["number"],)


def faults_of(builder: TopologyBuilder) -> list[str]:
    with pytest.raises(TopologyError) as caught:
        builder.build()
    return list(caught.value.faults)


def builder_with(bolt: Any, *, spout: Any = None, **settings: Any) -> TransactionalTopologyBuilder:
    builder = TransactionalTopologyBuilder("t", "numbers", spout or Batches([[1]]))
    builder.set_bolt("b", bolt, **settings).shuffle_grouping("numbers")
    return builder


def test_bolts_that_ack_themselves_or_have_state_are_refused() -> None:
    class ByHand(Bolt):
        def execute(self, tup: Tuple) -> None: ...

    class Keeps(StatefulBolt):  # type: ignore[type-arg]
        def init_state(self, state: Any) -> None: ...

        def execute(self, tup: Tuple) -> None: ...

    assert "'b': ByHand is a Bolt, which acks its inputs itself" in faults_of(builder_with(ByHand))[0]
    assert "Keeps is a stateful bolt" in faults_of(builder_with(Keeps))[0]


def test_a_burst_bolt_that_acks_itself_is_told_its_other_base() -> None:
    class Many(BurstBolt):
        def execute_many(self, burst: Any) -> None: ...

    @bolt("number", burst=True)
    def pairs(burst: Any) -> Any: ...

    for wrong, name in (Many, "Many"), (pairs, "pairs"):
        [fault] = faults_of(builder_with(wrong))
        assert fault == (
            f"bolt 'b': {name} is a Bolt, which acks its inputs itself, but transactions ack whole batches. "
            "Derive it from engine.transactional.BurstBolt."
        )


def test_a_tick_and_a_concurrency_of_batches_are_refused() -> None:
    assert "a tick belongs to no batch" in faults_of(builder_with(Basic, tick_tuple_freq_secs=1))[0]
    assert "never overlap" in "".join(faults_of(builder_with(Sums, concurrency=2)))


def test_only_a_batch_bolt_can_commit() -> None:
    builder = TransactionalTopologyBuilder("t", "numbers", Batches([[1]]))
    builder.set_committer("c", Basic).shuffle_grouping("numbers")
    assert "Basic is no batch bolt" in faults_of(builder)[0]


def test_a_field_with_the_name_of_the_attempt_is_refused() -> None:
    class Declares(Sums):
        output_fields = ("attempt", "sum")

    assert "declares the field 'attempt'" in faults_of(builder_with(Declares))[0]


def test_a_batch_bolt_in_a_plain_topology_is_refused() -> None:
    class Numbers(BatchBolt):
        def execute(self, tup: Tuple) -> None: ...

        def finish_batch(self) -> None: ...

    from engine import spout

    @spout("number")
    def numbers() -> Any:
        yield (1,)

    builder = TopologyBuilder("plain")
    builder.set_spout("numbers", numbers)
    builder.set_bolt("b", Numbers).shuffle_grouping("numbers")
    assert "this topology has no batches" in faults_of(builder)[0]


def test_a_spout_that_is_not_transactional_is_refused() -> None:
    assert "not a transactional spout" in faults_of(builder_with(Basic, spout=object()))[0]
    assert "Pass an instance: Batches(...)" in faults_of(builder_with(Basic, spout=Batches))[0]

    class Silent(Batches):
        output_fields = None  # type: ignore[assignment]

    assert "declares no output_fields" in faults_of(builder_with(Basic, spout=Silent([])))[0]
    with pytest.raises(UsageError, match="has its spout already"):
        TransactionalTopologyBuilder("t", "numbers", Batches([])).set_spout("other", object())


def test_zero_ackers_are_refused() -> None:
    topology = builder_with(Basic).build()
    with pytest.raises(TopologyError, match="acker_executors=0"):
        Run(topology, Config(acker_executors=0))


@pytest.mark.guarantee("TX-8")
def test_a_committer_with_keys_needs_a_fields_grouping_on_its_key() -> None:
    class ByWord(Committer):
        keyed_by = ("number",)

        def execute(self, tup: Tuple) -> None: ...

        def finish_batch(self) -> None: ...

    class One(ByWord):
        keyed_by = None  # type: ignore[assignment]

    assert "each key must be written by one task" in faults_of(builder_with(ByWord, parallelism=2))[0]
    assert "so it has one task" in faults_of(builder_with(One, parallelism=2))[0]
    builder_with(ByWord).build()
    builder = TransactionalTopologyBuilder("t", "numbers", Batches([[1]]))
    builder.set_bolt("b", ByWord, 2).fields_grouping("numbers", "number")
    builder.build()


@pytest.mark.guarantee("TX-8")
def test_a_committer_that_cannot_replace_is_refused_behind_an_opaque_spout() -> None:
    class Appends(Committer):
        needs_transactional_spout = True

        def execute(self, tup: Tuple) -> None: ...

        def finish_batch(self) -> None: ...

    spout: OpaquePartitionedTransactionalSpout[Any] = OpaquePartitions({}, lambda attempt, partition: 1)
    assert "the spout is opaque" in faults_of(builder_with(Appends, spout=spout))[0]
    builder_with(Appends).build()


def test_a_component_with_the_id_of_the_coordinator_is_refused() -> None:
    builder = TransactionalTopologyBuilder("t", "numbers", Batches([[1]]))
    builder.set_bolt("numbers/coordinator", Basic).shuffle_grouping("numbers")
    assert "is the engine's own id, of the coordinator" in faults_of(builder)[0]


def test_all_faults_are_reported_together() -> None:
    builder = TransactionalTopologyBuilder("", "numbers", object(), 0)  # type: ignore[arg-type]
    builder.set_bolt("b", Basic).shuffle_grouping("nmbers")
    assert len(faults_of(builder)) >= 4


def test_a_ready_made_committer_with_an_unknown_field_is_refused() -> None:
    from engine.transactional.values import MemoryValues, ReduceInto

    builder = TransactionalTopologyBuilder("t", "numbers", Batches([[1]]))
    builder.set_committer("c", ReduceInto(MemoryValues("m"), key="nmber", value="count")).shuffle_grouping("numbers")
    assert [fault.partition("(it has")[0].strip() for fault in faults_of(builder)] == [
        "bolt 'c': reads the field 'nmber', which stream 'default' of 'numbers' does not have",
        "bolt 'c': reads the field 'count', which stream 'default' of 'numbers' does not have",
    ]


def test_a_transactional_spout_in_a_plain_topology_is_refused_with_a_hint() -> None:
    builder = TopologyBuilder("plain")
    builder.set_spout("numbers", Batches([[1]]))  # type: ignore[arg-type]
    assert "Build it with TransactionalTopologyBuilder" in faults_of(builder)[0]
