"""A program that runs a transactional or a stateful topology, optionally as a standby.

    python -m tests.integration.standby_program FOLDER STATE_URL VALUES_URL transactional|stateful STANDBY

Both topologies sum numbers. After `HELD_AT` they wait for the file FOLDER/go. Each commit appends its pid and its txid to FOLDER/commits.
The transactional topology keeps its total in VALUES_URL, and the coordinator's state in STATE_URL.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from engine import Config, Fields, StatefulBasicBolt, Topology, TopologyBuilder, Tuple, log, spout
from engine.cli.run_session import run_in_terminal
from engine.transactional import TransactionalTopologyBuilder
from engine.transactional.memory_spout import MemoryTransactionalSpout
from engine.transactional.values import ReducingCommitter, ValueMap, values_at

NUMBERS = [list(range(0, 2000, 2)), list(range(1, 2000, 2))]
TOTAL = sum(map(sum, NUMBERS))
TAKE = 5
BATCHES = 1000 // TAKE
PAUSE_SECS = 0.01
HELD_AT = 60
"""Last batch or number before the wait for FOLDER/go."""


def values_in(url: str) -> ValueMap:
    """Return the map that stores the total."""
    return values_at(url, "total")


def build_transactional(folder: Path, values_url: str) -> Topology:
    """Build a topology that sums numbers batch by batch."""

    class Total(ReducingCommitter[str, int, int]):
        values = values_in(values_url)

        def fold(self, partial: int | None, tup: Tuple) -> int:
            return (partial or 0) + int(tup["number"])

        def combine(self, stored: int | None, partial: int) -> int:
            return (stored or 0) + partial

        async def finish_batch(self) -> None:
            await pause(folder, self.attempt.txid)
            await super().finish_batch()
            record_commit(folder, self.attempt.txid)

    rows: list[Any] = [[(number,) for number in part] for part in NUMBERS]
    builder = TransactionalTopologyBuilder("total", "numbers", MemoryTransactionalSpout(rows, "number", TAKE), max_spout_pending=3)
    builder.set_committer("total", Total).global_grouping("numbers")
    return builder.build()


def build_stateful(folder: Path) -> Topology:
    """Build a topology that sums numbers in a stateful bolt."""

    @spout("number")
    async def numbers() -> Any:
        for number in range(100):
            await pause(folder, number)
            yield (number,)

    class Total(StatefulBasicBolt):
        output_fields = Fields()

        def execute(self, tup: Tuple) -> None:
            self.state.put("total", self.state.get("total", 0) + tup["number"])

        def pre_commit(self, txid: int) -> None:
            record_commit(folder, txid)

    builder = TopologyBuilder("stateful total")
    builder.set_spout("numbers", numbers)
    builder.set_bolt("total", Total).global_grouping("numbers")
    return builder.build()


async def pause(folder: Path, number: int) -> None:
    """Pause. The test acts on the processes during the pauses."""
    await asyncio.sleep(PAUSE_SECS)
    while number > HELD_AT and not (folder / "go").exists():  # noqa: ASYNC110 - a file rings no bell
        await asyncio.sleep(PAUSE_SECS)


def record_commit(folder: Path, txid: int) -> None:
    """Append the pid and the txid of a commit."""
    with (folder / "commits").open("a") as commits:
        commits.write(f"{os.getpid()} {txid}\n")


def main(folder: Path, url: str, values_url: str, kind: str, standby: str) -> int:
    """Run the topology in this terminal. Return the exit status."""
    log.configure("warning")
    config = Config(state_provider=url, standby=standby == "standby", state_timeout_secs=5, state_checkpoint_interval_ms=100)
    topology = build_transactional(folder, values_url) if kind == "transactional" else build_stateful(folder)
    return run_in_terminal(topology, config, view="plain").exit_status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
