"""Jars with their dependencies. Maven fetches them once into the cache folder."""

import hashlib
import re
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Final

from tests.servers.cache import cache_folder, made_once

JAVA_VERSION: Final = 17
"""The oldest Java on which the servers run."""
RETRY_SECS: Final = (1, 4, 0)
"""Pauses after failed tries."""
FETCH_SECS: Final = 240
NOTHING_ELSE: Final = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
COLOUR: Final = r"\x1b\[[\d;]*m"


class FetchFailed(Exception):
    """The jars cannot be fetched. The text holds Maven's message."""


def jar_folder(name: str, coordinates: tuple[str, ...]) -> Path:
    """Return the folder of the jars of these `group:artifact:version`. It may not exist yet."""
    digest = hashlib.sha256(" ".join(coordinates).encode()).hexdigest()[:12]
    return cache_folder() / f"{name}-{digest}"


@cache
def why_no_jars(name: str, coordinates: tuple[str, ...], *, alone: bool = False) -> str | None:
    """Return the reason why the jars or Java are missing, or None. Fetches the jars the first time."""
    if reason := why_no_java():
        return reason
    if shutil.which("mvn") is None and not jar_folder(name, coordinates).is_dir():
        return "mvn, which fetches the jars, is not installed: scripts/install-system-packages maven"
    try:
        jars(name, coordinates, alone=alone)
    except FetchFailed as failed:
        return str(failed)
    return None


def why_no_java() -> str | None:
    """Return the reason why there is no Java for the servers, or None."""
    if shutil.which("java") is None:
        return "java is not installed: scripts/install-system-packages java"
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=FETCH_SECS, check=False).stderr
    found = re.search(r'version "(\d+)', said)
    if found is None:
        return f"java does not tell its version: {said.strip()}"
    if int(found[1]) < JAVA_VERSION:
        return f"java {found[1]} is too old, {JAVA_VERSION} is needed"
    return None


def jars(name: str, coordinates: tuple[str, ...], *, alone: bool = False) -> list[Path]:
    """Return the jars, in order. The first call on a machine fetches them. `alone` leaves dependencies out. Raises FetchFailed."""
    return sorted(made_once(jar_folder(name, coordinates), lambda folder: _fetch(folder, coordinates, alone=alone)).glob("*.jar"))


def _fetch(folder: Path, coordinates: tuple[str, ...], *, alone: bool) -> None:
    pom = folder.parent / "pom.xml"
    pom.write_text(_pom(coordinates, NOTHING_ELSE if alone else ""))
    command = [
        "mvn",
        "-q",
        "-B",
        "-Dstyle.color=never",
        "-f",
        str(pom),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={folder}",
        "-DincludeScope=runtime",
    ]
    for pause_secs in RETRY_SECS:
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=FETCH_SECS)
            return
        except subprocess.CalledProcessError as error:
            said = re.sub(COLOUR, "", error.stdout + error.stderr).partition("[ERROR] \n")[0].strip()  # Maven's help text follows
        except subprocess.TimeoutExpired:
            said = f"not done after {FETCH_SECS} s"
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(pause_secs)
    raise FetchFailed(f"Maven could not fetch {', '.join(coordinates)} in {len(RETRY_SECS)} tries: {said}")


def _pom(coordinates: tuple[str, ...], exclusions: str) -> str:
    lines = []
    for group, artifact, version in (one.split(":") for one in coordinates):
        names = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        lines.append(f"<dependency>{names}{exclusions}</dependency>")
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>stormcell</groupId><artifactId>servers</artifactId><version>1</version>"
        f"<dependencies>{''.join(lines)}</dependencies></project>\n"
    )
