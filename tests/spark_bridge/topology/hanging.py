"""Bolts whose plain calls never return, and the partition of a level that runs them. `python -m ... FOLDER` runs one on its main thread."""

import sys
import threading
from typing import Any

from engine import BasicBolt, Config, Tuple
from engine.transactional import Committer, MemoryTransactionalSpout, TransactionalTopologyBuilder, TransactionAttempt
from engine.transactional.open_batches import EmitRequest
from spark_bridge.topology.blocks import NOTICE
from spark_bridge.topology.cluster_run import on_spark
from spark_bridge.topology.level_run import Attempt, run_level
from spark_bridge.topology.level_status import LevelStatus
from spark_bridge.topology.loaded_program import LoadedProgram, load_program
from spark_bridge.topology.pickled_program import pickle_program


class Spins(BasicBolt):
    """Computes for ever at number 7."""

    output_fields = "number"

    def execute(self, tup: Tuple) -> tuple[int]:
        while tup["number"] == 7:
            _ = tup["number"]  # not `pass`, which an interruption names since Python 3.12
        return (tup["number"],)


class Waits(BasicBolt):
    """Waits for ever at number 7, in a call of C."""

    output_fields = "number"

    def execute(self, tup: Tuple) -> tuple[int]:
        if tup["number"] == 7:
            threading.Event().wait()
        return (tup["number"],)


class Stubborn(Spins):
    """Goes on after each error."""

    def execute(self, tup: Tuple) -> tuple[int]:
        while True:
            try:
                return super().execute(tup)
            except Exception:  # noqa: S112 - such code is the test
                continue


class Ends(Committer):
    def execute(self, tup: Tuple) -> None: ...

    def finish_batch(self) -> None: ...


def loaded(bolt: Any, timeout_secs: float) -> LoadedProgram:
    """Return a program whose only partition is at level 0."""
    builder = TransactionalTopologyBuilder("hangs", "numbers", MemoryTransactionalSpout([(n,) for n in range(10)], "number", take=10))
    builder.set_bolt("hangs", bolt).shuffle_grouping("numbers")
    builder.set_committer("ends", Ends).global_grouping("hangs")
    topology = on_spark(builder.build())
    [feature] = [each for each in topology.features if each.name == "transactional"]
    run: Any = feature.new_run(topology, Config(batch_timeout_secs=timeout_secs))  # type: ignore[attr-defined]
    return load_program(pickle_program(run.program()))


def statuses(program: LoadedProgram, folder: str | None) -> list[LevelStatus]:
    """Run the partition on this thread."""
    attempt = Attempt(EmitRequest(TransactionAttempt(1, 1), [0], 0, {}, {}, {0: [0, 10]}), folder)
    blocks = list(run_level(program, attempt, 0, 0, 3, []))
    return [block.content() for block in blocks if block.source == NOTICE and block.payload]


if __name__ == "__main__":
    print(statuses(loaded(Stubborn, 0.2), sys.argv[1]))
