"""A session by the kind of its master, and why there is none."""

import os
import traceback
from typing import Any, Protocol

from spark_bridge.session import wire


class Refused(Exception):
    """There is no session; `refusal` says why."""

    def __init__(self, refusal: wire.Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Opened(Protocol):
    """A session, classic or of Spark Connect."""

    spark: Any
    facts: dict[str, Any]

    def tag(self, name: str) -> None:
        """Have the jobs of this thread be cancelled by that name."""

    def cancel(self, name: str) -> None:
        """Cancel the jobs of that name that run."""

    def watch(self) -> str:
        """Wait until what the session needs has died; return of what."""

    def is_dead(self, error: BaseException) -> bool:
        """Tell whether it has died, and the error may come of that; waits a moment to be sure."""

    def close(self, secs: float) -> None:
        """End the session, and the JVM within so many seconds."""


def open_session(settings: dict[str, Any], folder: str) -> Opened:
    """Return a session; raise Refused."""
    try:
        import pyspark  # noqa: F401 - here, where its absence can be told
    except ModuleNotFoundError as error:
        raise Refused(wire.Refusal(False, f"pyspark cannot be imported: {error}", "pip install 'stormcell[spark]'")) from error
    except Exception as error:  # it is there, and something in it does not load
        traceback.print_exc()
        hint = "Its traceback is in the log. Look for a broken installation, or for a module of yours that hides another one."
        text = f"pyspark is there, and cannot be imported: {type(error).__name__}: {error}"
        raise Refused(wire.Refusal(False, text, hint, shows_log=True)) from error
    for path in (*settings["jars"], *settings["py_files"]):
        if "://" not in path and not os.path.exists(path):
            raise Refused(wire.Refusal(False, f"there is no file {path!r}", "Correct jars= or py_files= of SparkConfig."))
    if settings["kind"] == "connect":
        from spark_bridge.session.child.connect import ConnectSession

        return ConnectSession(settings)
    from spark_bridge.session.child.classic import ClassicSession

    return ClassicSession(settings, folder)
