"""One call: a function of the user's in a thread of its own, whose Spark jobs carry its tag."""

import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

from spark_bridge.session import carrying, wire
from spark_bridge.session.child.explaining import explain

FIRST_LOOK_SECS: Final = 0.05
LONGEST_LOOK_SECS: Final = 1.0


class Session(Protocol):
    """What a call needs of the session."""

    spark: Any

    def tag(self, name: str) -> None:
        """Have the jobs of this thread be cancelled by that name."""

    def cancel(self, name: str) -> None:
        """Cancel the jobs of that name that run."""

    def is_dead(self, error: BaseException) -> bool:
        """Tell whether what the session needs has died, and the error may come of that."""


class CallCancelled(Exception):
    """Raised by `call.emit` and `call.wait` in a call that was cancelled."""


class Call:
    """What a called function is given as its second argument."""

    def __init__(self, number: int, session: Session, link: Any, forget: Callable[[int], Any]) -> None:
        self._number = number
        self._session = session
        self._link = link
        self._forget = forget
        self._tag = f"stormcell-call-{number}"
        self._woken = threading.Event()
        self._stopping = False
        self._cancelled = False
        self._done = threading.Event()

    # The face for the called function

    @property
    def stopping(self) -> bool:
        """True once it is asked to come to an end by itself, or was cancelled."""
        return self._stopping or self._cancelled

    @property
    def cancelled(self) -> bool:
        """True once nobody waits for it any more."""
        return self._cancelled

    def emit(self, event: object) -> None:
        """Send an event to `on_event` in the engine's process; waits while that takes none. Raises CallCancelled."""
        self._check()
        self._link.send("event", self._number, carrying.dumps(event))

    def wait(self, secs: float) -> bool:
        """Wait so long, or until it is to stop; return `stopping`. Raises CallCancelled."""
        self._woken.wait(secs)
        self._check()
        return self.stopping

    def _check(self) -> None:
        if self._cancelled:
            raise CallCancelled("the call was cancelled")

    # The server's side

    def start(self, packed: bytes) -> None:
        """Begin, in a thread."""
        threading.Thread(target=self._run, args=(packed,), name=self._tag, daemon=True).start()

    def take(self, kind: str) -> None:
        """Take `stop-call` or `cancel`."""
        self._stopping = True
        if kind == "cancel" and not self._cancelled:
            self._cancelled = True
            threading.Thread(target=self._cancel, daemon=True).start()
        self._woken.set()

    def _cancel(self) -> None:
        """Cancel its jobs, and those that it begins later, until its function has ended."""
        look = FIRST_LOOK_SECS
        while not self._done.is_set():
            try:
                self._session.cancel(self._tag)
            except Exception as error:  # noqa: BLE001 - told in the log, and tried again
                if self._session.is_dead(error):
                    return
                print(f"{self._tag}: its jobs could not be cancelled: {error}")
            self._done.wait(look)
            look = min(2 * look, LONGEST_LOOK_SECS)

    def _run(self, packed: bytes) -> None:
        reply: tuple[str, bytes | wire.Trouble]
        try:
            self._session.tag(self._tag)
            function, arguments = carrying.loads(packed)
            reply = "result", carrying.dumps(function(self._session.spark, self, *arguments))
        except BaseException as error:  # noqa: BLE001 - handed to who awaits the call
            if self._session.is_dead(error):
                return  # the watch says so; this error would hide it
            reply = "error", explain(error)
        finally:
            self._done.set()
        try:
            self._link.send(reply[0], self._number, reply[1])
        except wire.TooLarge as error:
            hint = "Write it to a file, and return the path."
            self._link.send("error", self._number, wire.Trouble(f"what the function returned is {error}", hint=hint))
        self._forget(self._number)
