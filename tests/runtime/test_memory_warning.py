"""A run with data in `memory://` warns at its start that a crash loses it (CP-8)."""

import asyncio
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import Config, StatefulBolt, Topology, TopologyBuilder, Tuple, bolt, spout
from engine.cli.settings import read_settings
from engine.testing import run_topology
from tests.flow.flow_topologies import Numbers, Work, topology
from tests.transactional.batch_topologies import Batches, Store, summing

pytestmark = pytest.mark.guarantee("CP-8")


@spout("word")
def words() -> Any:
    yield ("to",)


@bolt()
def sink(tup: Tuple) -> None:
    pass


class Counts(StatefulBolt):
    def init_state(self, state: Any) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        self.collector.ack(tup)


def stateless() -> Topology:
    builder = TopologyBuilder("words")
    builder.set_spout("words", words)
    builder.set_bolt("sink", sink).shuffle_grouping("words")
    return builder.build()


def stateful(name: str = "words") -> Topology:
    builder = TopologyBuilder(name)
    builder.set_spout("words", words)
    builder.set_bolt("counts", Counts).fields_grouping("words", "word")
    return builder.build()


def transactional() -> Topology:
    return summing(Batches([[1], [2]]), Store())


def flowing() -> Topology:
    return topology(lambda: Numbers(5), lambda: Work([]))


KEEPING: dict[str, tuple[Callable[[], Topology], str]] = {
    "state": (stateful, "keeps the state of 'counts' in memory://"),
    "transactions": (transactional, "keeps the position of its transactions in memory://"),
    "a position": (flowing, "keeps the position of 'numbers' in memory://"),
}


def warnings_of(topology: Topology, config: Config, caplog: pytest.LogCaptureFixture) -> list[str]:
    async def main() -> None:
        async with engine.run(topology, config) as run:
            await asyncio.wait_for(run.completed(), 20)

    with caplog.at_level(logging.WARNING, logger="engine"):
        asyncio.run(main())
    return [record.getMessage() for record in caplog.records if "memory://" in record.getMessage()]


@pytest.mark.parametrize("what", KEEPING)
def test_the_start_logs_one_warning_with_a_hint(what: str, caplog: pytest.LogCaptureFixture) -> None:
    make, said = KEEPING[what]
    [warning] = warnings_of(make(), Config(), caplog)
    assert said in warning
    assert "a crash, or the end of this process, loses it" in warning
    assert "-c state_provider=sqlite:///" in warning


@pytest.mark.parametrize("what", KEEPING)
def test_with_a_durable_store_no_warning_is_logged(what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert warnings_of(KEEPING[what][0](), Config(state_provider=f"sqlite:///{tmp_path}/state.db"), caplog) == []


def test_a_topology_without_state_logs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings_of(stateless(), Config(), caplog) == []


@pytest.mark.parametrize("name", ["words", "my words/2026", "计数", "a'b\"c"])
def test_the_hint_works_on_the_command_line(name: str, caplog: pytest.LogCaptureFixture) -> None:
    [warning] = warnings_of(stateful(name), Config(), caplog)
    found = re.search(r"-c (\S+), or", warning)
    assert found is not None
    settings = read_settings(flags=(found[1],), environ={}, config_file=None, file_config=None, topology_file=None)
    assert re.fullmatch(r"sqlite:///[\w-]+\.db", settings.config.state_provider)


def test_run_topology_logs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    run_topology(stateful())
    assert "memory://" not in caplog.text
