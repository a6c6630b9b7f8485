"""Sets the metrics of the files of a task (FI-9)."""

from engine.api import TaskContext
from engine.files.reader import ReaderCounts


class FileMetrics:
    """Counts files, rows and bytes, and shows the lag. Called once per piece, not per row."""

    def __init__(self, context: TaskContext) -> None:
        self.rows = context.counter("file_rows")
        self.bytes = context.counter("file_bytes")
        self.bad_rows = context.counter("file_bad_rows")
        self.given_up = context.counter("file_rows_given_up")
        self._lag = context.gauge("file_lag_bytes")
        self._shown = ReaderCounts()
        self._counters = {
            "files": context.counter("files_read"),
            "rotated": context.counter("files_rotated"),
            "truncated": context.counter("files_truncated"),
            "lost": context.counter("file_positions_lost"),
        }

    def show(self, counts: ReaderCounts) -> None:
        """Show what has happened since the last call. counts: those of the reader, or of a new one."""
        for name, counter in self._counters.items():
            more = getattr(counts, name) - getattr(self._shown, name)
            if more > 0:
                counter.add(more)
            setattr(self._shown, name, getattr(counts, name))
        self._lag.set(counts.lag_bytes)
