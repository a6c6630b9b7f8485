"""`SqlCommitter`: executes the user's own SQL statement for each row of a batch, in one transaction with the txid (TX-12)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from engine.api import Burst
from engine.errors import UsageError
from engine.state.rows import Row
from engine.state.sql_text import checked_statement
from engine.transactional.batch_bolt import BurstBolt
from engine.transactional.one_target import opened_for_all_batches
from engine.transactional.sql.databases import SqlDatabase
from engine.transactional.sql.row_output import OpenRowOutput, RowOutput


@dataclass(frozen=True)
class SqlCommitter:
    """Bolt factory: executes a statement for each tuple of a batch, and stores the txid in the same transaction of the database.

    `fields` are the fields of the input for `$1`, `$2` and so on, in PostgreSQL and in SQLite. `key`: the field or fields of the fields
    grouping, if the committer has several tasks. The table `stormcell_batches` beside the user's tables has the newest txid of each task.

    >>> from engine.transactional import SqliteDatabase
    >>> insert = "INSERT INTO visits(user_id, page) VALUES ($1, $2) ON CONFLICT DO NOTHING"
    >>> visits = SqlCommitter(SqliteDatabase("visits.db"), insert, fields=("user_id", "page"))
    >>> visits.create().reads
    ('user_id', 'page')
    """

    database: SqlDatabase
    statement: str
    """One statement that changes rows. Each row of a batch executes it once, in the order of the batch."""
    fields: str | Sequence[str]
    key: str | Sequence[str] | None = None

    def create(self) -> "SqlWriter":
        """Return a new committer. Raises UsageError if the statement and the fields do not fit."""
        database: object = self.database
        if not isinstance(database, SqlDatabase):
            hint = 'Write PostgresDatabase("postgresql://user:password@host/db") or SqliteDatabase("visits.db").'
            raise UsageError(f"SqlCommitter(database) is {database!r}", hint=hint)
        if not isinstance(self.statement, str):
            raise UsageError(f"SqlCommitter(statement) is {self.statement!r}", hint="Write the SQL text of one statement.")
        fields = _names("fields", self.fields)
        text = checked_statement(self.statement, fields)
        return SqlWriter(RowOutput(self.database, text, fields), None if self.key is None else _names("key", self.key))


def _names(what: str, given: object) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, (tuple, list)) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise UsageError(f"SqlCommitter({what}) is {given!r}", hint=f'Name the fields of the input: {what}=("user_id", "page").')
    return names


class SqlWriter(BurstBolt):
    """One attempt of a task."""

    reads_attempt: ClassVar[bool] = False
    is_committer: ClassVar[bool] = True
    needs_transactional_spout: ClassVar[bool] = True
    """True, because the effects of a statement cannot be taken back, so a replay must have the same rows."""
    refuses_gaps: ClassVar[bool] = True
    """The table takes no batch whose predecessor it does not have (TX-12)."""

    def __init__(self, output: RowOutput, keyed_by: tuple[str, ...] | None) -> None:
        self._output = output
        self.keyed_by = keyed_by
        self._rows: list[Row] = []

    @property
    def reads(self) -> tuple[str, ...]:
        """The fields that the committer reads from every tuple. `build()` checks that the inputs have them."""
        return tuple(dict.fromkeys((*self._output.fields, *(self.keyed_by or ()))))

    async def prepare(self) -> None:
        """Open the database, and check the statement, before the first batch. All attempts of the task share the connection."""
        self._open: OpenRowOutput = await opened_for_all_batches(self, self._output, "statement or database")

    async def published_txid(self) -> int:
        """Return the newest txid that is stored in the database, 0 before the first (EO-9)."""
        opened: OpenRowOutput = await opened_for_all_batches(self, self._output, "statement or database")
        return await opened.txid()

    async def forget(self) -> None:
        """Forget the txids of this committer in the database (EO-11)."""
        opened: OpenRowOutput = await opened_for_all_batches(self, self._output, "statement or database")
        await opened.forget()

    def execute_many(self, burst: Burst) -> None:
        self._rows.extend(zip(*[burst[name] for name in self._output.fields], strict=True))

    async def finish_batch(self) -> None:
        await self._open.publish(self.attempt, self._open.stage(self._rows))
