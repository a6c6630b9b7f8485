"""`Packed` is a value of user code on its way to the run. The run may not be able to load it, so a text goes with it (PR-1)."""

import pickle
from typing import Any, NamedTuple

from engine.cancellation import OWN_CANCELLATION, was_cancelled
from engine.kernel import are_plain
from engine.names import plain_text
from engine.raised import add_note
from engine.runtime.error_report import error_text, user_traceback
from engine.safe_text import safe_repr


class Packed(NamedTuple):
    """A value that is pickled on its own."""

    pickled: bytes | None
    """None: pickle cannot store the value."""
    text: str
    """Stands for the value where it cannot be loaded."""

    def load(self) -> Any:
        """Return the value. Raises the error of a value that cannot be loaded, which may be any BaseException."""
        if self.pickled is None:
            raise pickle.UnpicklingError("it could not be stored")
        return pickle.loads(self.pickled)


def pack(value: object, text: str) -> Packed:
    """Return a value with the text that stands for it."""
    try:
        return Packed(pickle.dumps(value, 5), text)
    except BaseException:  # noqa: BLE001 - code of the value, such as a SystemExit
        return Packed(None, text)


def plain_or_packed(value: object) -> Any:
    """Return a value of a built-in type unchanged, a text of a derived class as str, and any other value packed."""
    if are_plain([(value,)]):
        return value
    return plain_text(value) if isinstance(value, str) else pack(value, safe_repr(value))


def unpacked(value: Any) -> Any:
    """Return the value of `plain_or_packed`, or its text if it cannot be loaded here."""
    if type(value) is not Packed:
        return value
    try:
        return value.load()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - code of the value
        return value.text


def pack_error(error: BaseException) -> Packed:
    """Return an error of user code with its text. Its frames are in a note."""
    if was_cancelled(error):
        error.args = (OWN_CANCELLATION,)
    frames = user_traceback(error)
    if frames:
        add_note(error, f"in the process of the task:\n{frames.rstrip()}")
    return pack(error, error_text(error))


def unpacked_error(packed: Packed) -> BaseException:
    """Return the error, or a RuntimeError with its text if its class cannot be loaded here."""
    error = unpacked(packed)
    return error if isinstance(error, BaseException) else RuntimeError(packed.text)
