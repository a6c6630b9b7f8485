"""Faults that depend on the config. `build()` checks them if the builder has a config, and each run does (GRP-5)."""

import pytest

from engine.config import Config
from engine.errors import TopologyError
from engine.topology import TopologyBuilder, validate_run
from tests.topology.test_build_faults import Sink, Split, Words, faults_of, words_and

pytestmark = pytest.mark.guarantee("GRP-5")


def cycle(config: Config | None = None, **settings) -> TopologyBuilder:
    builder = TopologyBuilder("test", config)
    builder.set_spout("words", Words, **settings)
    builder.set_spout("aside", Words)
    builder.set_bolt("split", Split).shuffle_grouping("words").shuffle_grouping("again", "late")
    builder.set_bolt("again", Split).shuffle_grouping("split")
    builder.set_bolt("sink", Sink).shuffle_grouping("again").shuffle_grouping("aside")
    return builder


UNBOUNDED = (
    "spout 'words': feeds the cycle 'split' → 'again' → 'split' without max_spout_pending, so nothing bounds the tuples in it. "
    "Fix set_spout('words', ..., max_spout_pending=1000) or Config(max_spout_pending=1000)."
)


@pytest.mark.guarantee("BP-5")
def test_a_cycle_without_max_spout_pending_is_a_fault() -> None:
    assert faults_of(cycle(Config())) == [UNBOUNDED]


@pytest.mark.guarantee("BP-5")
def test_a_cycle_without_a_config_of_the_builder_is_checked_by_the_run() -> None:
    topology = cycle().build()
    validate_run(topology, Config(max_spout_pending=1000))
    with pytest.raises(TopologyError) as raised:
        validate_run(topology, Config())
    assert raised.value.faults == (UNBOUNDED,)


@pytest.mark.guarantee("BP-5")
def test_a_cycle_may_be_bounded_by_the_component_or_the_config() -> None:
    assert cycle(max_spout_pending=100).build().components["words"].settings.max_spout_pending == 100
    assert cycle(Config(max_spout_pending=100)).build().config == Config(max_spout_pending=100)


@pytest.mark.guarantee("BP-5")
def test_a_cycle_without_ackers_is_a_fault() -> None:
    assert faults_of(cycle(Config(acker_executors=0, max_spout_pending=5))) == [
        "cycle 'split' → 'again' → 'split': with acker_executors=0 nothing bounds the tuples in it. "
        "Set Config(acker_executors=1), or remove the cycle."
    ]


def test_a_run_checks_again_with_its_own_config() -> None:
    topology = cycle(Config(max_spout_pending=100)).build()
    validate_run(topology, Config(max_spout_pending=7))
    with pytest.raises(TopologyError) as raised:
        validate_run(topology, Config())
    assert raised.value.faults == (UNBOUNDED,)
    assert raised.value.topology_name == "test"


def test_more_tasks_than_key_groups_are_a_fault() -> None:
    builder = words_and(Config())
    builder.set_bolt("count", Sink, parallelism=129).fields_grouping("words", "word")
    builder.set_bolt("free", Sink, parallelism=129).shuffle_grouping("words")
    assert faults_of(builder) == [
        "bolt 'count': parallelism 129 is above key_groups (128), so behind its fields grouping some tasks would get nothing. "
        "Lower it, or set Config(key_groups=129) or more."
    ]
    builder.config = Config(key_groups=129)
    assert builder.build()
