"""Writes rows into a user's tables in PostgreSQL, in one transaction with the fence."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import asyncpg

from engine.errors import StateError, StateUnavailable
from engine.state.postgres.errors import POOLED, POOLED_HINT, translated_error
from engine.state.postgres.link import CALL_SECS, IS_OWN_SESSION, PostgresLink
from engine.state.rows import COMPONENT, FENCES, MAKE_FENCES, Row, RowFence, RowStatement, RowStore, RowWriter, row_fence
from engine.state.sql_text import first_word
from engine.state.values import AttemptId

_LOCK: Final = 0x73746F726E
"""Advisory lock for creating the table of fences."""
_THERE: Final = f"SELECT to_regclass('{FENCES}') IS NOT NULL"
_FENCE: Final = f"SELECT {IS_OWN_SESSION}, task, tasks, txid, attempt FROM {FENCES} WHERE topology = $1 AND component = $2"
_CLAIM: Final = f"""
INSERT INTO {FENCES} AS stored VALUES ($1, $2, {COMPONENT}, $3, $4, $5) ON CONFLICT (topology, component, task)
    DO UPDATE SET tasks = $3, txid = $4, attempt = $5 WHERE (stored.txid, stored.attempt) IN (($6::bigint, $7::bigint), ($4, $5))
    RETURNING {IS_OWN_SESSION}
"""
"""Raises the fence of the component from the attempt that was seen."""
_SHARE: Final = f"""
SELECT {IS_OWN_SESSION} FROM {FENCES}
    WHERE topology = $1 AND component = $2 AND task = {COMPONENT} AND (txid, attempt) = ($3, $4) FOR SHARE
"""
_NOTE: Final = f"""
INSERT INTO {FENCES} AS stored VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (topology, component, task)
    DO UPDATE SET tasks = $4, txid = $5, attempt = $6 WHERE stored.txid < $5 RETURNING 1
"""
"""Raises the txid of this task, once."""
_OF_ROWS: Final = frozenset({"21", "22", "23", "44", "54", "P0"})
"""Classes of SQLSTATE that depend on the values of a row. P0: a trigger or function has raised."""


class _Undone(Exception):
    """Ends a transaction that must change nothing."""


class PostgresRowStore(RowStore):
    """One statement, for one task."""

    def __init__(self, link: PostgresLink, statement: RowStatement, writer: RowWriter) -> None:
        self._link = link
        self._statement = statement
        self._writer = writer

    async def open(self) -> None:
        await self._link.open()
        await self._check()
        async with self._link.transaction() as connection:
            if not await connection.fetchval(_THERE):
                await self._make_fences(connection)

    async def _check(self) -> None:
        """Compile and plan the statement. Planning finds a missing constraint for ON CONFLICT, and missing rights. It changes nothing."""
        text, values = self._statement.text, [None] * len(self._statement.fields)
        try:
            async with self._link.transaction() as connection:
                with self._statement_errors():
                    await connection.prepare(text)
                    if first_word(text) != "call":  # which has no plan
                        await connection.execute(f"EXPLAIN {text}", *values)
        except StateError as error:
            if not _is_of_a_row(error.__cause__):  # the plan may have computed something with NULL
                raise

    async def _make_fences(self, connection: Any) -> None:
        await connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
        try:
            await connection.execute(MAKE_FENCES)
        except asyncpg.InsufficientPrivilegeError as error:
            raise StateError(
                f"{self._link.where}: the table {FENCES}, which stores the newest batch of each committer, cannot be created: {error}",
                hint=f"GRANT CREATE ON SCHEMA to that user, or create it yourself: {MAKE_FENCES}; and GRANT SELECT, INSERT, UPDATE on it.",
            ) from error

    def stage(self, rows: Sequence[Row]) -> Sequence[Row]:
        return rows

    async def fence(self) -> RowFence:
        found = await self._link.fetch(_FENCE, self._writer.topology, self._writer.component)
        self._check_session(found)
        return row_fence([tuple(row)[1:] for row in found])

    async def publish(self, seen: RowFence, attempt: AttemptId, rows: Sequence[Row]) -> bool:
        writer, is_ours = self._writer, seen.attempt == attempt
        owner = (writer.topology, writer.component)
        claim = (*owner, writer.tasks, *attempt, *seen.attempt)
        if writer.tasks > 1 and not is_ours:
            # Committed at once, so that the tasks of a batch write at the same time. A lock of the claim would let only one write.
            self._check_session(claimed := await self._link.fetch(_CLAIM, *claim))
            if not claimed:
                return False
            is_ours = True
        try:
            async with self._link.transaction() as connection:
                held = await (connection.fetch(_SHARE, *owner, *attempt) if is_ours else connection.fetch(_CLAIM, *claim))
                self._check_session(held)
                if not held or not await connection.fetch(_NOTE, *owner, writer.task, writer.tasks, *attempt):
                    raise _Undone
                with self._statement_errors():
                    await connection.executemany(self._statement.text, rows)
        except _Undone:
            return False
        except StateError as error:  # of the statement, or of a deferred constraint at the commit
            if _is_of_a_row(error.__cause__):
                await self._explain(error.__cause__, rows)
            raise
        return True

    async def forget(self) -> None:
        owner = (self._writer.topology, self._writer.component)
        await self._link.fetch(f"DELETE FROM {FENCES} WHERE topology = $1 AND component = $2", *owner)

    def _check_session(self, found: Sequence[Any]) -> None:
        if found and not found[0][0]:
            raise StateError(f"{self._link.where}: {POOLED}", hint=POOLED_HINT)

    async def _explain(self, cause: BaseException | None, rows: Sequence[Row]) -> NoReturn:
        """Raise RowRefused with the rows that fail. Executes the rows again, one by one, in a transaction that changes nothing."""
        refused: dict[int, asyncpg.PostgresError] = {}
        async with self._link.transaction() as connection:
            await connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
            for number, row in enumerate(rows):
                try:
                    async with connection.transaction():
                        await connection.execute(self._statement.text, *row)
                except asyncpg.PostgresError as error:
                    if not _is_of_a_row(error):
                        raise
                    refused[number] = error
            first = next(iter(refused), None)
            if first is None:
                raise self._statement.row_refused(self._link.where, _text_of(cause), None) from cause
            errors = {number: _text_of(error) for number, error in refused.items()}
            raise self._statement.row_refused(self._link.where, errors[first], rows[first], errors) from refused[first]

    @contextmanager
    def _statement_errors(self) -> Iterator[None]:
        """Translate errors that only the user's statement can cause. All others are errors of rows, of the connection or the server."""
        try:
            yield
        except asyncpg.PostgresError as error:
            if _is_of_a_row(error) or isinstance(translated_error(error, self._link.where, CALL_SECS), StateUnavailable):
                raise
            raise self._statement.refused(self._link.where, _text_of(error)) from error

    async def close(self) -> None:
        await self._link.close()


def _is_of_a_row(error: BaseException | None) -> bool:
    """Return whether an error depends on the values of a row. asyncpg raises class 22 for a value that does not fit its parameter."""
    return (getattr(error, "sqlstate", None) or "")[:2] in _OF_ROWS


def _text_of(error: BaseException | None) -> str:
    """Return the text of an error, with PostgreSQL's detail and hint, which often name the value or the column that was meant."""
    parts = (str(error), *(getattr(error, name, None) for name in ("detail", "hint")))
    return ". ".join(dict.fromkeys(part.strip().rstrip(".") for text in parts if text for part in text.split("\n")))
