"""A transactional topology, and one with state, each as a process that may stand by.

    python -m tests.integration.standing_by FOLDER STATE_URL VALUES_URL transactional|stateful STANDBY

Both sum numbers, wait in the midst of it until there is FOLDER/go, and note in FOLDER/commits whoever commits, and which txid. The total
of the transactional one is kept apart from its coordinator's state.
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
"""The batch, or the number, behind which nothing is done before FOLDER/go is there."""


def values_in(url: str) -> ValueMap:
    """Where the total is."""
    return values_at(url, "total")


def transactional(folder: Path, values_url: str) -> Topology:
    """The total of all numbers, batch by batch."""

    class Total(ReducingCommitter[str, int, int]):
        values = values_in(values_url)

        def fold(self, partial: int | None, tup: Tuple) -> int:
            return (partial or 0) + int(tup["number"])

        def combine(self, stored: int | None, partial: int) -> int:
            return (stored or 0) + partial

        async def finish_batch(self) -> None:
            await paced(folder, self.attempt.txid)
            await super().finish_batch()
            note(folder, self.attempt.txid)

    rows: list[Any] = [[(number,) for number in part] for part in NUMBERS]
    builder = TransactionalTopologyBuilder("total", "numbers", MemoryTransactionalSpout(rows, "number", TAKE), max_spout_pending=3)
    builder.set_committer("total", Total).global_grouping("numbers")
    return builder.build()


def stateful(folder: Path) -> Topology:
    """The sum of the numbers that one process emits, kept by a stateful bolt."""

    @spout("number")
    async def numbers() -> Any:
        for number in range(100):
            await paced(folder, number)
            yield (number,)

    class Total(StatefulBasicBolt):
        output_fields = Fields()

        def execute(self, tup: Tuple) -> None:
            self.state.put("total", self.state.get("total", 0) + tup["number"])

        def pre_commit(self, txid: int) -> None:
            note(folder, txid)

    builder = TopologyBuilder("stateful total")
    builder.set_spout("numbers", numbers)
    builder.set_bolt("total", Total).global_grouping("numbers")
    return builder.build()


async def paced(folder: Path, number: int) -> None:
    """Give others time to do something to this process in the midst of its work."""
    await asyncio.sleep(PAUSE_SECS)
    while number > HELD_AT and not (folder / "go").exists():  # noqa: ASYNC110 - a file rings no bell
        await asyncio.sleep(PAUSE_SECS)


def note(folder: Path, txid: int) -> None:
    """What is committed, and by whom."""
    with (folder / "commits").open("a") as commits:
        commits.write(f"{os.getpid()} {txid}\n")


def main(folder: Path, url: str, values_url: str, kind: str, standby: str) -> int:
    """Run it in this terminal; return the exit status."""
    log.configure("warning")
    config = Config(state_provider=url, standby=standby == "standby", state_timeout_secs=5, state_checkpoint_interval_ms=100)
    topology = transactional(folder, values_url) if kind == "transactional" else stateful(folder)
    return run_in_terminal(topology, config, view="plain").exit_status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
