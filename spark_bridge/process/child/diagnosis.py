"""Explains why a session cannot start and how a process ended, with a hint. Both processes import this module."""

import os
import re
import shutil
import signal
import socket
import subprocess
from typing import Any, Final

from spark_bridge.process.messages import StartFailure

OLDEST_JAVA: Final = 17
CONNECT_SECS: Final = 5.0
JAVA_SECS: Final = 20.0
_INSTALL_JAVA: Final = "Install a Java Runtime of 17 or newer (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME."
_JVM_STATUSES: Final = {50: "an uncaught exception", 52: "OutOfMemoryError"}
"""Statuses that Spark uses when it ends its JVM."""


class SessionRefused(Exception):
    """No session can be opened. `failure` has the reason."""

    def __init__(self, failure: StartFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def check_java_and_master(settings: dict[str, Any]) -> None:
    """Raise SessionRefused if Java is missing or the master cannot be reached.

    Spark itself notices this only after minutes, or only logs it.
    """
    if java() is None:
        raise SessionRefused(StartFailure(False, f"no Java was found ({_searched_places()})", _INSTALL_JAVA))
    if settings["kind"] == "standalone":
        check_reachable(master_addresses(settings), "Start the master, or correct master= of SparkConfig (--master).")


def master_addresses(settings: dict[str, Any]) -> list[tuple[str, int]]:
    """Return host and port of each master of a standalone cluster."""
    return [_address(part) for part in settings["master"].removeprefix("spark://").split(",")]


def check_reachable(addresses: list[tuple[str, int]], hint: str) -> None:
    """Raise SessionRefused if none of the addresses accepts a connection."""
    errors = []
    for address in addresses:
        try:
            socket.create_connection(address, CONNECT_SECS).close()
            return
        except OSError as error:
            errors.append(error.strerror or str(error))
    raise SessionRefused(StartFailure(True, f"it cannot be reached: {'; '.join(errors)}", hint))


def explain_start_error(settings: dict[str, Any], error: Exception, jvm_status: int | None = None) -> SessionRefused:
    """Return the reason for an error of Spark's start. `jvm_status`: exit status of the JVM, or None if it runs."""
    text = str(error)
    version = _java_version() if "JAVA_GATEWAY_EXITED" in text else None
    if version is not None and version < OLDEST_JAVA:
        return SessionRefused(
            StartFailure(False, f"Java {version} is too old ({java()}); Spark needs {OLDEST_JAVA} or newer", _INSTALL_JAVA)
        )
    if jvm_status is not None and jvm_status < 0:
        hint = "If no person killed it, the system was short of memory: lower driver_memory=, or use a machine with more memory."
        text = f"{describe_jvm_status(jvm_status)} during its start"
        return SessionRefused(StartFailure(True, text, hint, shows_log=True, is_death=True))
    summary = _message_without_stack(text)
    if "BindException" in text or "Address already in use" in text or "Cannot assign requested address" in text:
        hint = "Free the port, or set another one (spark.driver.port, spark.blockManager.port, spark.ui.port) in conf=. Port 0 means any."
        return SessionRefused(StartFailure(True, f"a port cannot be taken: {summary}", hint))
    if "All masters are unresponsive" in text:
        hint = "Start the master, or correct master=."
        return SessionRefused(StartFailure(True, f"{settings['master']} does not answer: {summary}", hint))
    if "Connection refused" in text or "UnknownHost" in text:
        hint = "Start the server that the text names, or correct master= or conf= of SparkConfig."
        return SessionRefused(StartFailure(True, f"a server that Spark needs does not answer: {summary}", hint))
    if "JAVA_GATEWAY_EXITED" in text or jvm_status is not None:
        hint = "The usual causes are too little memory (driver_memory=), or a setting in conf= that Java does not accept."
        return SessionRefused(StartFailure(False, "its JVM ended during its start", hint, shows_log=True))
    return SessionRefused(StartFailure(False, f"no session could be created: {summary}", "Correct conf= of SparkConfig (--conf)."))


def _message_without_stack(text: str) -> str:
    """Return the message of a JVM error, without its stack."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("at ", "..."))]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        del lines[0]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    message = causes[-1] if causes else lines[0] if lines else "Spark gave no reason"
    return re.sub(r"^(: ?|Caused by: )", "", message)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _searched_places() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"JAVA_HOME is {home!r}, without bin/java" if home else "JAVA_HOME is not set, and PATH has no java"


def java() -> str | None:
    """Return the path of Java by the rule of Spark's own script."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return shutil.which(os.path.join(home, "bin", "java"))
    return shutil.which("java")


def _java_version() -> int | None:
    try:
        output = subprocess.run([java() or "java", "-version"], capture_output=True, text=True, timeout=JAVA_SECS, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(found[1]) if found else None


# Ends of processes


def describe_status(status: int) -> str:
    """Return how a process ended.

    >>> describe_status(-9), describe_status(3)
    ('was killed by SIGKILL', 'ended with status 3')
    """
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def describe_jvm_status(status: int) -> str:
    """Return how a JVM ended.

    >>> describe_jvm_status(-9), describe_jvm_status(52)
    ('the JVM was killed by SIGKILL', 'the JVM ended with status 52 (OutOfMemoryError)')
    """
    meaning = _JVM_STATUSES.get(status)
    return f"the JVM {describe_status(status)}" + (f" ({meaning})" if meaning else "")


def likely_cause(exit_text: str, log_tail: str) -> tuple[str, str | None]:
    """Return the likely cause of an exit, in brackets, and a hint. If there is no likely cause, return an empty text and None.

    >>> likely_cause("the JVM ended with status 52 (OutOfMemoryError)", "")[0]
    ' (out of memory)'
    """
    if "no executors are left" in exit_text:
        return "", "Start the master again. The next try opens a new session, and the batch is tried again."
    if "has stopped the session" in exit_text:
        return "", "See the log. A cluster removes an application whose executors die again and again. The next try opens a new session."
    if "OutOfMemoryError" in log_tail or "status 52" in exit_text:
        return " (out of memory)", "Raise driver_memory (executor_memory on a cluster), or make the batches smaller."
    if "SIGKILL" in exit_text:
        return " (by a person, or by the kernel to free memory)", "If nobody killed it, see dmesg, and lower driver_memory or the batches."
    return "", None
