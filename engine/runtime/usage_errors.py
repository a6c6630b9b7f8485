"""Builds the errors for wrong uses of a collector, which compiled code detects."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from engine.api import wrong_values
from engine.errors import EngineError, UsageError
from engine.kernel import stable_hash
from engine.names import REPORT_STREAM, did_you_mean
from engine.safe_text import safe_repr, safe_str
from engine.topology import ComponentSpec


class UsageErrors:
    """Builds the UsageErrors of one task. The compiled collectors call it with a kind and its details."""

    def __init__(self, spec: ComponentSpec) -> None:
        self._where = f"{spec.kind} {spec.component_id!r}"
        self._spec = spec

    def __call__(self, kind: str, **details: Any) -> EngineError:
        """Return the error, which the caller raises."""
        return _BUILDERS[kind](self, details)

    def unknown_stream(self, details: Mapping[str, Any]) -> EngineError:
        given = details["stream"]
        stream = safe_repr(given, 200)
        if REPORT_STREAM in self._spec.streams and not isinstance(given, str):
            text = f"{self._where} emitted with {stream} in place of a stream"
            return UsageError(text, hint="Emits of a batch belong to it. None has an anchor. Write emit(values), or emit(values, stream).")
        return UsageError(
            f"{self._where} emitted to stream {stream}, which it does not declare",
            hint=f"Declare it in {self._spec.fields_declared_at}. {did_you_mean(given, self._spec.streams)}",
        )

    def not_values(self, details: Mapping[str, Any]) -> EngineError:
        return wrong_values(f"{self._where} emitted", details["values"], self._spec.streams[details["stream"]])

    def arity(self, details: Mapping[str, Any]) -> EngineError:
        return wrong_values(f"{self._where} emitted to stream {details['stream']!r}", details["values"], details["fields"])

    def direct_stream(self, details: Mapping[str, Any]) -> EngineError:
        return UsageError(
            f"{self._where} used emit() on stream {details['stream']!r}, which is direct",
            hint="Name the task: emit_direct(task, values, ...), or declare the stream without direct=True.",
        )

    def not_direct(self, details: Mapping[str, Any]) -> EngineError:
        return UsageError(
            f"{self._where} used emit_direct() on stream {details['stream']!r}, which is not direct",
            hint=f"Declare it Fields(..., direct=True) in {self._spec.fields_declared_at}, or use emit().",
        )

    def direct_target(self, details: Mapping[str, Any]) -> EngineError:
        return UsageError(
            f"{self._where} used emit_direct() to task {details['task']}, which does not subscribe to stream {details['stream']!r}",
            hint="Take the task from context.targets(stream); its bolt subscribes by direct_grouping().",
        )

    def custom_target(self, details: Mapping[str, Any]) -> EngineError:
        chosen, targets = details["chosen"], details["targets"]
        unknown = [task for task in chosen if task not in targets] if isinstance(chosen, Collection) else []
        fault = f"returned {safe_repr(chosen)}, which is not a list of tasks"
        if unknown:
            fault = f"chose task {safe_repr(unknown[0])}, which is not among its targets {targets}"
        return UsageError(
            f"{self._where}: a custom grouping {fault}",
            hint="Return a list of task ids from the `targets` argument of prepare().",
        )

    def key(self, details: Mapping[str, Any]) -> EngineError:
        field = ", ".join(repr(name) for name, key in zip(details["names"], details["keys"], strict=False) if not _is_key(key))
        return UsageError(
            f"{self._where}: a fields grouping cannot use the value of field {field} as a key: {safe_str(details['error'])}",
            hint="Group by a field whose values are None, bool, int, float, str, bytes, datetime, Decimal, UUID, Enum, or tuples and lists "
            "of these. Or give its type a __stable_hash__ method.",
        )

    def anchors(self, details: Mapping[str, Any]) -> EngineError:
        return UsageError(
            f"{self._where} emitted with anchors={safe_repr(details['anchors'])}, which is not one of its input tuples",
            hint="Pass anchors=tup, a list of such tuples, or nothing.",
        )

    def anchor(self, details: Mapping[str, Any]) -> EngineError:
        tup = details["tuple"]
        if tup.is_settled or details.get("settled"):  # the latter: by the running call, whose settles are held back
            return UsageError(
                f"{self._where} emitted anchored to {safe_repr(tup)}, which is settled already",
                hint="Emit before ack() or fail(), since the tree of a settled tuple may be complete.",
            )
        text = f"{self._where} emitted anchored to {safe_repr(tup)}, which is an input of another task"
        return UsageError(text, hint="Anchor to inputs of this task only.")

    def not_mine(self, details: Mapping[str, Any]) -> EngineError:
        text = f"{self._where} settled {safe_repr(details['tuple'])}, which is an input of another task"
        return UsageError(text, hint="Settle the inputs of this task only.")

    def not_a_tuple(self, details: Mapping[str, Any]) -> EngineError:
        return UsageError(
            f"{self._where} called {details['method']}({safe_repr(details['given'])}), which is not one of its input tuples",
            hint=f"Pass the tuple itself: {details['method']}(tup).",
        )

    def not_rows(self, details: Mapping[str, Any]) -> EngineError:
        method, given = details["method"], details["given"]
        one = "value" if method == "emit_each" else "tuple of values"
        if REPORT_STREAM in self._spec.streams:
            hint = f"Write {method}([...]). To emit one tuple, call emit((value,))."
        elif self._spec.kind == "spout":
            one, hint = "tuple of values, or one message id,", "Write emit_many([(value,), ...], [message_id, ...])."
        else:
            hint = f"Write {method}([...], tup). To emit one tuple, call emit((value,), tup)."
        call = f"{self._where} called {method}({safe_repr(given, 200)})"
        return UsageError(f"{call}, which takes a list, or another iterable with one {one} for each tuple", hint=hint)

    def row_ids(self, details: Mapping[str, Any]) -> EngineError:
        return UsageError(
            f"{self._where} called emit_many() with {details['rows']} rows and {details['ids']} message ids",
            hint="Give one message id (or None) for each row, or leave message_ids out.",
        )

    def thread(self, details: Mapping[str, Any]) -> EngineError:
        return UsageError(
            f"{self._where} used its collector on a thread other than the loop's",
            hint="Use loop.call_soon_threadsafe(...), or a BasicBolt with threads=n, whose collector may be used in its threads.",
        )

    def call_over(self, details: Mapping[str, Any]) -> EngineError:
        return UsageError(
            f"{self._where}: work that a call of execute has left behind emitted after this call had raised",
            hint="Await in execute() all that it starts, or start the work by context.create_task() in prepare().",
        )

    def retired(self, details: Mapping[str, Any]) -> EngineError:
        return UsageError(
            f"{self._where}: an instance that was replaced after an error, or whose run has ended, used its collector",
            hint="End background work in cleanup(), or start it by context.create_task(), which cancels it.",
        )


def _is_key(value: object) -> bool:
    try:
        stable_hash(value)
    except Exception:  # noqa: BLE001 - a __stable_hash__ of user code
        return False
    return True


_BUILDERS: dict[str, Callable[[UsageErrors, Mapping[str, Any]], EngineError]] = {
    name: method for name, method in vars(UsageErrors).items() if not name.startswith("_")
}
