"""Who is exact is known before the run starts, and is shown everywhere (EO-7)."""

import json
import logging
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest

from engine import BasicBolt, Config, Snapshot, Topology, TopologyBuilder, Tuple, spout
from engine.checkpoint import CheckpointEntry
from engine.checkpoint.guarantees import Guarantees, Source, guarantees
from engine.cli.topology_commands import describe
from engine.runtime.snapshot_json import snapshot_from_dict
from engine.testing import run_topology
from engine.topology.graph import dot, mermaid, svg
from engine.transactional import Committer
from tests.checkpoint.scenarios.kit import Numbers, PassOn, Told

pytestmark = pytest.mark.guarantee("EO-7")

LOST = "it has seek() and position(), until the process ends, because state_provider='memory://' ends with it"
CANNOT = "it has no seek() and position()"
STORED = Config(state_provider="sqlite:///state.db")


@spout("n", positions=True)
def positioned(after: int | None) -> Iterator[tuple[int, tuple[int]]]:
    yield from ((number, (number,)) for number in range((after or 0) + 1, 4))


@spout("n")
def plain() -> Iterator[tuple[int]]:
    yield (1,)


class Mail(BasicBolt):
    """Sends a mail for each input."""

    def execute(self, tup: Tuple) -> None:
        """Have an effect outside."""


class Publishes(Committer):
    """Publishes nothing."""

    def execute(self, tup: Tuple) -> None:
        """Take a row."""

    def finish_batch(self) -> None:
        """Publish."""


def mixed(**bolts: Any) -> Topology:
    """Return a topology with spouts of all kinds, and these bolts and committers behind all of them."""
    builder = TopologyBuilder("mixed")
    builder.set_spout("numbers", lambda: Numbers(3))
    builder.set_spout("positioned", positioned)
    builder.set_spout("plain", plain)
    builder.set_bolt("pass", PassOn).shuffle_grouping("numbers").shuffle_grouping("positioned").shuffle_grouping("plain")
    for component_id, each in bolts.items():
        declare = builder.set_committer if each is Publishes else builder.set_bolt
        declare(component_id, each).shuffle_grouping("pass")
    return builder.build()


def with_state() -> Topology:
    return mixed(count=Told().create, mail=Mail)


def test_each_source_has_a_guarantee_with_its_reason_and_each_bolt_a_part() -> None:
    assert guarantees(with_state(), STORED) == Guarantees(
        sources=(
            Source("numbers", "exactly once", "it has seek() and position()"),
            Source("positioned", "exactly once", "it has seek() and position()"),
            Source("plain", "at least once", CANNOT),
        ),
        parts={"pass": "stateless", "count": "stateful", "mail": "stateless"},
        may_repeat=("mail",),
    )


def test_a_store_that_ends_with_the_process_is_named() -> None:
    shown = guarantees(with_state(), Config())
    assert shown is not None
    assert [each.why for each in shown.sources] == [LOST, LOST, CANNOT]


def test_no_source_is_exact_with_at_least_once() -> None:
    shown = guarantees(with_state(), STORED.replace(processing_guarantee="at_least_once"))
    assert shown is not None
    assert {(each.guarantee, each.why) for each in shown.sources} == {("at least once", "processing_guarantee='at_least_once'")}


def test_a_committer_makes_its_topology_exact_without_a_state() -> None:
    shown = guarantees(mixed(publish=Publishes), STORED)
    assert shown is not None
    assert (shown.bolts("committer"), shown.may_repeat) == (("publish",), ())


def test_a_topology_without_state_and_committers_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert guarantees(mixed(mail=Mail), STORED) is None
    assert "once" not in describe(mixed(mail=Mail), "file.py", STORED)
    with caplog.at_level(logging.INFO, "engine.checkpoint"):
        run_topology(mixed(mail=Mail))
    assert caplog.records == []


def test_the_start_of_a_run_tells_it_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "engine.checkpoint"):
        run_topology(with_state())
    assert [record.getMessage() for record in caplog.records if "once" in record.getMessage()] == [
        f"topology 'mixed': 'numbers' exactly once: {LOST}; 'positioned' exactly once: {LOST}; 'plain' at least once: {CANNOT}; "
        "effects outside of 'mail' may happen again after a failure"
    ]


def test_the_command_check_tells_it_below_the_components() -> None:
    lines = describe(with_state(), "file.py", STORED).splitlines()
    shown = lines[lines.index(next(line for line in lines if line.startswith("source"))) :]
    assert [line.split("  ")[0].strip() for line in shown[:4]] == ["source", "numbers", "positioned", "plain"]
    assert [word in line for line, word in zip(shown[1:4], ("exactly once", "exactly once", CANNOT), strict=True)] == [True] * 3
    assert shown[4:] == ["stateful: count", "effects outside may happen again after a failure: mail"]


def test_drawings_mark_sources_stateful_bolts_and_effects_that_may_repeat() -> None:
    topology = with_state()
    shown = guarantees(topology, STORED)
    assert shown is not None
    words = shown.labels()
    wanted = {"spout × 1 · exactly once", "spout × 1 · at least once", "bolt × 1 · stateful", "bolt × 1 · effects may repeat", "bolt × 1"}
    texts = {"".join(each.itertext()) for each in ElementTree.fromstring(svg(topology, words)).iter("{http://www.w3.org/2000/svg}text")}
    assert wanted <= texts
    assert all(text in mermaid(topology, words) for text in wanted)
    assert all(text in dot(topology, words) for text in wanted)
    assert mermaid(topology) == mermaid(topology, {})


def test_the_snapshot_has_it_also_as_json() -> None:
    topology = with_state()
    finished = run_topology(topology)
    expected = guarantees(topology, Config())
    assert finished.snapshot.checkpoint.guarantees == expected
    told = json.loads(json.dumps(finished.snapshot.to_dict()))
    again: Snapshot = snapshot_from_dict(told, (CheckpointEntry,))
    assert again.checkpoint == finished.snapshot.checkpoint
    assert told["checkpoint"]["guarantees"]["sources"][2] == {"component_id": "plain", "guarantee": "at least once", "why": CANNOT}


def test_a_word_that_the_label_of_a_component_has_is_not_repeated() -> None:
    assert "bolt × 1 · bolt" not in mermaid(with_state(), {"pass": "bolt"})
