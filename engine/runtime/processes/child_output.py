"""`ChildOutput` gives the output of a child to the run: its log records, printed lines, metrics and error reports."""

import sys
from typing import Any

from engine.errors import UsageError
from engine.log import log_again
from engine.metrics import TaskLabels
from engine.metrics.user_metrics import MetricChange
from engine.program_exit import raise_out_of_loop
from engine.raised import headline
from engine.runtime.error_report import ErrorReport, ErrorReporter
from engine.runtime.processes.packed import unpacked
from engine.runtime.run_context import RunContext


class ChildOutput:
    """Output of the child of one task. Nothing that receives it may harm the task."""

    def __init__(self, labels: TaskLabels, run_context: RunContext, reporter: ErrorReporter) -> None:
        self._labels = labels
        self._run_context = run_context
        self._reporter = reporter

    def publish(self, report: ErrorReport) -> None:
        """Publish a report. The child logs it, and so the log has it too."""
        self._run_context.publish(report)

    def log(self, attributes: dict[Any, Any]) -> None:
        """Let the loggers of the run handle a record."""
        loaded = {name: unpacked(value) for name, value in attributes.items()}
        log_again(loaded, *self._labels)

    def print(self, name: str, text: str) -> None:
        """Write text to the stream of this name. A live table may have replaced the stream, and shows the text above itself."""
        stream = getattr(sys, name)
        if stream is None:
            return
        try:
            try:
                stream.write(text)
            except UnicodeEncodeError as error:
                stream.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
        except (KeyboardInterrupt, SystemExit) as error:
            raise_out_of_loop(error)
        except BaseException as error:  # noqa: BLE001 - the stream may be closed, or any object of the program
            told = UsageError(f"{name} of the run cannot be written: {headline(error)}", hint="What the bolt prints is lost.")
            self._reporter.report(told, next_step="nothing: the bolt continues")

    def apply_metrics(self, changes: list[MetricChange], dropped: list[tuple[str, dict[str, str]]]) -> None:
        """Add the changes of metrics to the metrics of the run."""
        metrics = self._run_context.metrics
        try:
            metrics.apply_changes(self._labels, changes)
            for name, labels in dropped:
                metrics.drop_metric(name, self._labels, labels)
        except UsageError as error:
            self._reporter.report(error, next_step="nothing: the metric is not counted")
