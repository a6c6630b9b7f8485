"""A topology whose committer ends the process while it publishes the row 25, and the commands that a user has for it.

`python -m tests.checkpoint.deadly_committer STEP COMMAND…` runs a command of the engine, and dies at a step of it, or at none.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from engine.cli.main import run_command_line
from engine.transactional import BadRows, Committer, SqlCommitter, SqliteDatabase
from tests.kills.moments import after, before
from tests.kills.steps import Step

ROWS: Final = 60
KILLER: Final = 25
STEPS: Final = {
    step.name: step
    for step in (
        Step("before the claim", "engine.state.sqlite.store:SqliteLedger.claim", before),
        Step("after the claim", "engine.state.sqlite.store:SqliteLedger.claim", after),
        Step("before the write", "engine.state.sqlite.store:SqliteLedger.write", before),
        Step("after the write", "engine.state.sqlite.store:SqliteLedger.write", after),
    )
}
FILE: Final = '''
from engine import Config, TopologyBuilder
from functools import partial
from tests.checkpoint.deadly_committer import COMMITTERS, ROWS
from tests.checkpoint.scenarios.kit import Numbers

config = Config(state_provider="sqlite:///{folder}/state.db", state_checkpoint_interval_ms=50, max_retries=2)
builder = TopologyBuilder("deadly", config)
builder.set_spout("numbers", partial(Numbers, ROWS, burst=2, pace_secs=0.01))
builder.set_committer("out", COMMITTERS[{kind!r}]({folder!r}), {tasks}).fields_grouping("numbers", "n")
if {beside!r}:
    builder.set_committer("beside", COMMITTERS[{beside!r}]({folder!r} + "/beside")).global_grouping("numbers")
topology = builder.build()
'''


class Own(Committer):
    """Writes the rows of each txid and task to a file of its own."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder, "own")
        self.rows: list[int] = []

    def execute(self, tup: Any) -> None:
        self.rows.append(tup["n"])

    def finish_batch(self) -> None:
        die_of(self.rows)
        self.write()

    def write(self) -> None:
        """Write the rows."""
        self.folder.mkdir(exist_ok=True, parents=True)
        name = f"{self.attempt.txid} {self.context.task_index} {self.context.tasks}"
        whole = Path(self.folder, f"{name}.new")
        whole.write_text(json.dumps(self.rows))
        whole.rename(self.folder / f"{name}.json")


class Refusing(Own):
    """Refuses the row 24, and dies of the row 25."""

    def finish_batch(self) -> None:
        if KILLER - 1 in self.rows:
            raise BadRows("refused", rows=[self.rows.index(KILLER - 1)])
        super().finish_batch()


class Unavailable(Own):
    """Its target cannot be reached for the row 25."""

    def finish_batch(self) -> None:
        if KILLER in self.rows and not Path(self.folder.parent, "there").exists():
            raise OSError("the target is away")
        self.write()


class Pieces(Own):
    """Stages pieces of its own."""

    def stage(self) -> Any:
        yield self.rows

    def publish(self, pieces: Any) -> None:
        self.rows = [row for piece in pieces for row in piece]
        Own.finish_batch(self)


class Sql:
    """`SqlCommitter`, whose publishing ends the process."""

    def __init__(self, folder: str) -> None:
        database = SqliteDatabase(Path(folder, "rows.db"))
        self._committer = SqlCommitter(database, "INSERT INTO rows VALUES ($1)", fields="n", key="n")

    def create(self) -> Any:
        """Return a committer that dies of its rows."""
        made = self._committer.create()
        publish = made.finish_batch

        async def die_or_publish() -> None:
            die_of([row[0] for row in made._rows])
            await publish()

        made.finish_batch = die_or_publish  # type: ignore[method-assign]
        return made


def die_of(rows: list[int]) -> None:
    """End the process without a word, as a fault in C code does."""
    if KILLER in rows:
        os._exit(9)


COMMITTERS: Final[dict[str, Any]] = {
    "own": lambda folder: lambda: Own(folder),
    "refusing": lambda folder: lambda: Refusing(folder),
    "unavailable": lambda folder: lambda: Unavailable(folder),
    "pieces": lambda folder: lambda: Pieces(folder),
    "sql": Sql,
}


def main(step: str, *command: str) -> int:
    """Run a command."""
    if step:
        STEPS[step].arm(int(os.environ.get("NUMBER", "1")), 0.0)
    return run_command_line(list(command))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
