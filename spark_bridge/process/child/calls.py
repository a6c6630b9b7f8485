"""Runs each call of a user function in its own thread. The Spark jobs of a call carry its tag."""

import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

from spark_bridge.process import messages, pickling
from spark_bridge.process.child.error_text import describe_failure
from spark_bridge.process.messages import CallFailure, MessageSocket

FIRST_PAUSE_SECS: Final = 0.05
MAX_PAUSE_SECS: Final = 1.0


class Session(Protocol):
    """A session of Spark, classic or of Spark Connect."""

    spark: Any
    facts: dict[str, Any]

    def tag_thread(self, name: str) -> None:
        """Tag the jobs that this thread starts, so that `cancel_jobs` finds them."""

    def cancel_jobs(self, name: str) -> None:
        """Cancel the running jobs with this tag."""

    def wait_for_death(self) -> str:
        """Wait until the JVM or the server has died. Return a text about it."""

    def has_died(self, error: BaseException) -> bool:
        """Tell whether the JVM or the server has died and may have caused the error. May wait a moment to be sure."""

    def close(self, secs: float) -> None:
        """End the session, and its JVM within `secs`."""


class CallCancelled(Exception):
    """Raised by `call.emit` and `call.wait` in a cancelled call."""


class Call:
    """Second argument of a called function: its connection to the engine's process."""

    def __init__(self, number: int, session: Session, connection: MessageSocket, forget: Callable[[int], Any]) -> None:
        self._number = number
        self._session = session
        self._socket = connection
        self._forget = forget
        self._tag = f"stormcell-call-{number}"
        self._wakeup = threading.Event()
        self._stopping = False
        self._cancelled = False
        self._done = threading.Event()

    # For the called function

    @property
    def stopping(self) -> bool:
        """True after a request to return, or after cancellation."""
        return self._stopping or self._cancelled

    @property
    def cancelled(self) -> bool:
        """True if no caller still waits for the result."""
        return self._cancelled

    def emit(self, event: object) -> None:
        """Send an event to `on_event` in the engine's process. Blocks while that process reads nothing. Raises CallCancelled."""
        self._check_cancelled()
        self._socket.send_message("event", self._number, pickling.dumps(event))

    def wait(self, secs: float) -> bool:
        """Wait up to `secs` for a request to stop. Return `stopping`. Raises CallCancelled."""
        self._wakeup.wait(secs)
        self._check_cancelled()
        return self.stopping

    def _check_cancelled(self) -> None:
        if self._cancelled:
            raise CallCancelled("the call was cancelled")

    # For the server

    def start(self, pickled: bytes) -> None:
        """Start the function in a thread."""
        threading.Thread(target=self._run, args=(pickled,), name=self._tag, daemon=True).start()

    def interrupt(self, kind: str) -> None:
        """Handle a message `stop-call` or `cancel`."""
        self._stopping = True
        if kind == "cancel" and not self._cancelled:
            self._cancelled = True
            threading.Thread(target=self._cancel_jobs, daemon=True).start()
        self._wakeup.set()

    def _cancel_jobs(self) -> None:
        """Cancel the jobs repeatedly until the function has ended, because it may start further jobs."""
        pause = FIRST_PAUSE_SECS
        while not self._done.is_set():
            try:
                self._session.cancel_jobs(self._tag)
            except Exception as error:  # noqa: BLE001 - written to the log, and tried again
                if self._session.has_died(error):
                    return
                print(f"{self._tag}: its jobs could not be cancelled: {error}")
            self._done.wait(pause)
            pause = min(2 * pause, MAX_PAUSE_SECS)

    def _run(self, pickled: bytes) -> None:
        reply: tuple[str, bytes | CallFailure]
        try:
            self._session.tag_thread(self._tag)
            function, arguments = pickling.loads(pickled)
            reply = "result", pickling.dumps(function(self._session.spark, self, *arguments))
        except BaseException as error:  # noqa: BLE001 - sent to the caller
            if self._session.has_died(error):
                return  # the watching thread reports the death, and this error would hide it
            reply = "error", describe_failure(error)
        finally:
            self._done.set()
        try:
            self._socket.send_message(reply[0], self._number, reply[1])
        except messages.MessageTooLarge as error:
            hint = "Write the result to a file, and return its path."
            self._socket.send_message("error", self._number, CallFailure(f"the result of the function is too large: {error}", hint=hint))
        self._forget(self._number)
