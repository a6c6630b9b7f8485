"""`python -m spark_bridge.process.child FD FOLDER` serves the engine's process through an inherited socket, and ends with that process."""

import os
import shutil
import signal
import socket
import sys
import threading
import traceback
from typing import Any, Final

from spark_bridge.installation import install_command
from spark_bridge.process.child.calls import Call, Session
from spark_bridge.process.child.diagnosis import SessionRefused
from spark_bridge.process.messages import MessageSocket, StartFailure

JVM_EXIT_SECS: Final = 5.0
"""Time for the JVM to end by itself."""


class Server:
    """Handles the messages of the engine's process in order. The session and each call have their own threads."""

    def __init__(self, connection: MessageSocket, folder: str) -> None:
        self._socket = connection
        self._folder = folder
        self._session: Session | None = None
        self._calls: dict[int, Call] = {}
        self._leaving = threading.Event()

    def serve(self) -> None:
        """Handle messages until the engine's process sends `stop` or ends."""
        while (message := self._socket.receive_message()) is not None:
            kind, number, content = message
            if kind == "start":
                threading.Thread(target=self._start_session, args=(content,), daemon=True).start()
            elif kind == "call":
                self._start_call(number, content)
            elif kind == "stop":
                break
            elif number in self._calls:
                self._calls[number].interrupt(kind)
        self._leave()

    def _start_session(self, settings: dict[str, Any]) -> None:
        try:
            session = open_session(settings, self._folder)
        except SessionRefused as error:
            self._socket.send_message("refused", 0, error.failure)
            os._exit(1)
        except BaseException as error:  # noqa: BLE001 - without an answer the engine's process waits until its timeout
            traceback.print_exc()
            text = f"the session could not be opened: {type(error).__name__}: {error}"
            self._socket.send_message("refused", 0, StartFailure(False, text, "The traceback is in the log.", shows_log=True))
            os._exit(1)
        self._session = session
        threading.Thread(target=self._watch, args=(session,), daemon=True).start()
        self._socket.send_message("ready", 0, session.facts)

    def _watch(self, session: Session) -> None:
        """Wait for the death of the JVM or the server, report it, and exit. The session cannot continue after this death."""
        death_report = session.wait_for_death()
        if not self._leaving.is_set():
            self._socket.send_message("died", 0, death_report)
            os._exit(1)

    def _start_call(self, number: int, pickled: bytes) -> None:
        assert self._session is not None  # the engine's process sends no call before `ready`
        call = self._calls[number] = Call(number, self._session, self._socket, self._calls.pop)
        call.start(pickled)

    def _leave(self) -> None:
        """End the calls, the session and the JVM, then kill the process group, which includes this process."""
        self._leaving.set()
        for call in list(self._calls.values()):
            call.interrupt("cancel")
        if self._session is not None:
            self._session.close(JVM_EXIT_SECS)
        shutil.rmtree(self._folder, ignore_errors=True)
        os.killpg(os.getpgrp(), signal.SIGKILL)


def open_session(settings: dict[str, Any], folder: str) -> Session:
    """Open the session for the kind of master. Raise SessionRefused."""
    try:
        import pyspark  # noqa: F401 - here, because its absence is reported as an error of the start
    except ModuleNotFoundError as error:
        raise SessionRefused(StartFailure(False, f"pyspark cannot be imported: {error}", install_command("spark"))) from error
    except Exception as error:  # pyspark is installed, but one of its modules does not load
        traceback.print_exc()
        hint = "See the traceback in the log. Look for a broken installation, or for a module of yours that hides another one."
        text = f"pyspark is installed, but cannot be imported: {type(error).__name__}: {error}"
        raise SessionRefused(StartFailure(False, text, hint, shows_log=True)) from error
    for path in (*settings["jars"], *settings["py_files"], *(archive.partition("#")[0] for archive in settings["archives"])):
        if "://" not in path and not os.path.exists(path):
            hint = "Correct jars=, py_files= or archives= of SparkConfig."
            raise SessionRefused(StartFailure(False, f"there is no file {path!r}", hint))
    if settings["kind"] == "connect":
        from spark_bridge.process.child.connect import ConnectSession

        return ConnectSession(settings)
    from spark_bridge.process.child.classic import ClassicSession

    return ClassicSession(settings, folder)


def main() -> None:
    """Serve."""
    Server(MessageSocket(socket.socket(fileno=int(sys.argv[1]))), sys.argv[2]).serve()


if __name__ == "__main__":
    main()
