"""Why there is no session, in one line with its fix."""

import os
import re
import shutil
import socket
import subprocess
from typing import Any, Final

from spark_bridge.session import wire
from spark_bridge.session.child.opened import Refused
from spark_bridge.session.child.statuses import jvm_died

OLDEST_JAVA: Final = 17
REACH_SECS: Final = 5.0
JAVA_SECS: Final = 20.0
_INSTALL_JAVA: Final = "Install a Java Runtime of 17 or newer (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME."


def before_start(settings: dict[str, Any]) -> None:
    """Raise Refused for what would else take Spark minutes, or hide in its log."""
    if java() is None:
        raise Refused(wire.Refusal(False, f"no Java was found ({_looked_for()})", _INSTALL_JAVA))
    if settings["kind"] == "standalone":
        places = [_place(each) for each in settings["master"].removeprefix("spark://").split(",")]
        reach(places, "Start the master, or correct master= of SparkConfig (--master).")


def reach(places: list[tuple[str, int]], hint: str) -> None:
    """Raise Refused where none of these can be connected to."""
    troubles = []
    for place in places:
        try:
            socket.create_connection(place, REACH_SECS).close()
            return
        except OSError as error:
            troubles.append(error.strerror or str(error))
    raise Refused(wire.Refusal(True, f"it cannot be reached: {'; '.join(troubles)}", hint))


def why_not_started(settings: dict[str, Any], error: Exception, jvm_status: int | None = None) -> Refused:
    """Return why Spark could not be started. `jvm_status`: how its JVM has ended, where it has."""
    text = str(error)
    version = _java_version() if "JAVA_GATEWAY_EXITED" in text else None
    if version is not None and version < OLDEST_JAVA:
        return Refused(wire.Refusal(False, f"Java {version} is too old ({java()}); Spark needs {OLDEST_JAVA} or newer", _INSTALL_JAVA))
    if jvm_status is not None and jvm_status < 0:
        hint = "Where nobody did that, the system wanted its memory: give it less (driver_memory=), or the machine more."
        return Refused(wire.Refusal(True, f"{jvm_died(jvm_status)} while it was starting", hint, shows_log=True))
    first = _short(text)
    if "BindException" in text or "Address already in use" in text or "Cannot assign requested address" in text:
        hint = "Free the port, or set another one (spark.driver.port, spark.blockManager.port, spark.ui.port) in conf=; 0 takes any."
        return Refused(wire.Refusal(True, f"a port cannot be taken: {first}", hint))
    if "All masters are unresponsive" in text:
        return Refused(wire.Refusal(True, f"{settings['master']} does not answer: {first}", "Start the master, or correct master=."))
    if "Connection refused" in text or "UnknownHost" in text:
        hint = "Start what the text names, or correct master= or conf= of SparkConfig."
        return Refused(wire.Refusal(True, f"something that it needs does not answer: {first}", hint))
    if "JAVA_GATEWAY_EXITED" in text or jvm_status is not None:
        hint = "It is mostly memory (driver_memory=), or a setting in conf= that Java does not take."
        return Refused(wire.Refusal(False, "its JVM ended while it was starting", hint, shows_log=True))
    return Refused(wire.Refusal(False, f"no session could be made: {first}", "Correct conf= of SparkConfig (--conf)."))


def _short(text: str) -> str:
    """Return what an error of the JVM says, without its stack."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("at ", "..."))]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        del lines[0]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    said = causes[-1] if causes else lines[0] if lines else "for no reason that it gave"
    return re.sub(r"^(: ?|Caused by: )", "", said)


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _looked_for() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"JAVA_HOME is {home!r}, without bin/java" if home else "JAVA_HOME is not set, and PATH has no java"


def java() -> str | None:
    """Return the Java that Spark's own script takes."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return shutil.which(os.path.join(home, "bin", "java"))
    return shutil.which("java")


def _java_version() -> int | None:
    try:
        said = subprocess.run([java() or "java", "-version"], capture_output=True, text=True, timeout=JAVA_SECS, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None
