"""`python -m spark_bridge.session.child FD FOLDER`: serve the engine's process through an inherited socket, and end with it."""

import os
import shutil
import signal
import socket
import sys
import threading
import traceback
from typing import Any, Final

from spark_bridge.session.child.calling import Call
from spark_bridge.session.child.link import Link
from spark_bridge.session.child.opened import Opened, Refused, open_session
from spark_bridge.session.wire import Refusal

JVM_SECS: Final = 5.0
"""How long the JVM has to end by itself."""


class Server:
    """Takes the messages of the engine's process, each as it comes; the session and the calls have threads of their own."""

    def __init__(self, link: Link, folder: str) -> None:
        self._link = link
        self._folder = folder
        self._opened: Opened | None = None
        self._calls: dict[int, Call] = {}
        self._leaving = threading.Event()

    def serve(self) -> None:
        """Do so until the engine's process says stop, or is no more."""
        while (message := self._link.receive()) is not None:
            kind, number, content = message
            if kind == "start":
                threading.Thread(target=self._open, args=(content,), daemon=True).start()
            elif kind == "call":
                self._call(number, content)
            elif kind == "stop":
                break
            elif number in self._calls:
                self._calls[number].take(kind)
        self._leave()

    def _open(self, settings: dict[str, Any]) -> None:
        try:
            opened = open_session(settings, self._folder)
        except Refused as refused:
            self._link.send("refused", 0, refused.refusal)
            os._exit(1)
        except BaseException as error:  # noqa: BLE001 - without an answer the engine's process would wait until its time is over
            traceback.print_exc()
            text = f"its session could not be opened: {type(error).__name__}: {error}"
            self._link.send("refused", 0, Refusal(False, text, "Its traceback is in the log.", shows_log=True))
            os._exit(1)
        self._opened = opened
        threading.Thread(target=self._watch, args=(opened,), daemon=True).start()
        self._link.send("ready", 0, opened.facts)

    def _watch(self, opened: Opened) -> None:
        """Wait for the death of what the session needs: then there is nothing to stay for."""
        what = opened.watch()
        if not self._leaving.is_set():
            self._link.send("died", 0, what)
            os._exit(1)

    def _call(self, number: int, packed: bytes) -> None:
        assert self._opened is not None  # no call is sent before `ready`
        call = self._calls[number] = Call(number, self._opened, self._link, self._calls.pop)
        call.start(packed)

    def _leave(self) -> None:
        """End the calls, the session and the JVM, then whatever is left of the process group, this process among it."""
        self._leaving.set()
        for call in list(self._calls.values()):
            call.take("cancel")
        if self._opened is not None:
            self._opened.close(JVM_SECS)
        shutil.rmtree(self._folder, ignore_errors=True)
        os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> None:
    """Serve."""
    Server(Link(socket.socket(fileno=int(sys.argv[1]))), sys.argv[2]).serve()


if __name__ == "__main__":
    main()
