"""Sends the rows of the tasks of a group, packed into blocks. Fails the attempt if a row cannot leave its task."""

from engine.errors import ERROR, Failure, FatalError
from engine.kernel import take_runs
from engine.runtime.task_group import TaskGroup
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_runner import failure_text
from engine.transactional.combining import CombiningFailed
from spark_bridge.topology.blocks import Packer, Run, pack, rows_in, unpicklable_row
from spark_bridge.topology.level_status import LevelStatus, RunEnd
from spark_bridge.topology.loaded_program import LoadedProgram
from spark_bridge.topology.outbox import Outbox
from spark_bridge.topology.result_blocks import ResultBlocks, combining_failure, combining_step
from spark_bridge.topology.result_files import ResultBlock, ResultWriter


class RowSender:
    """Sends the rows of one attempt: to later levels through the outbox, and results into files. After a failure it drops them."""

    def __init__(
        self,
        loaded: LoadedProgram,
        group: TaskGroup,
        attempt: TransactionAttempt,
        status: LevelStatus,
        outbox: Outbox,
        folder: str | None,
    ) -> None:
        """status: names the try of the partition, and gets its failure. folder: for result files. None: results go into the outbox."""
        self._loaded = loaded
        self._group = group
        self._attempt = attempt
        self._status = status
        self._outbox = outbox
        self._files = None if folder is None else ResultWriter(folder, status.number)
        self._results = ResultBlocks(loaded, attempt, self._send_result, self._refuse_combined)
        self._packer = Packer(self._send)

    def take_rows(self) -> None:
        """Pack the rows that the tasks have sent. The group tells of progress when new ones come."""
        for target, mailbox in self._group.elsewhere.items():
            if len(mailbox):
                self._packer.add(target, take_runs(mailbox))
            mailbox.park()  # it tells only of rows that come after this, so it must be empty

    def finish(self) -> None:
        """Send all rows that are left, and the partial results. All tasks have reported."""
        self.take_rows()
        self._packer.flush()
        if not self._status.has_failed:
            self._results.finish()

    def close(self) -> None:
        """Close the result files, and store in the status what was sent."""
        if self._files is not None:
            self._status.files = self._files.close()
        self._outbox.note_sent(self._status)

    def refuse(self, source: int, error: BaseException, row: object, text: str) -> None:
        """Report a row that cannot cross to another process, and fail the attempt."""
        if self._status.failure is None:
            self._group.reporter_of(source).report(error, tup=row, next_step=f"batch {self._attempt} fails, and is tried again")
            self._status.failure = Failure(ERROR, self._loaded.component_of[source], source).because(f"{text}: {failure_text(error)}")

    def _send(self, source: int, target: int, runs: list[Run], rows: int) -> None:
        if self._status.has_failed:
            return
        if target not in self._loaded.plan.places:
            self._results.add(source, target, runs)
        elif (payload := self._packed(source, runs, runs)) is not None:
            self._outbox.send(source, target, payload, rows_in(runs))

    def _send_result(self, source: int, block: ResultBlock) -> None:
        payload = None if self._status.has_failed else self._packed(source, tuple(block), block.runs)
        if payload is None:
            return
        if self._files is None:
            self._outbox.send(source, block.target, payload, rows_in(block.runs))
        else:
            self._files.write(source, payload)

    def _packed(self, source: int, content: object, runs: list[Run]) -> bytes | None:
        """Return pickled rows. Fail the attempt, and return None, if a value cannot be pickled."""
        try:
            return pack(content)
        except Exception as error:  # noqa: BLE001 - of user code: a value that cannot be pickled
            self.refuse(source, error, unpicklable_row(runs), "a value cannot go to another process")
            return None

    def _refuse_combined(self, source: int, committer: str, failed: CombiningFailed) -> None:
        """End the run, or fail the attempt, because a committer cannot combine a tuple."""
        component = self._loaded.component_of[source]
        if isinstance(failed.error, FatalError):
            self._status.end = RunEnd(component, source, f"committer {committer!r}: {failed.error.message}", failed.error.hint)
        elif self._status.failure is None:
            self._group.reporter_of(source).report(failed.error, tup=failed.row, next_step=combining_step(committer, self._attempt))
            self._status.failure = combining_failure(component, source, committer, failed)
