"""Jars with all that they need, fetched once by Maven into the cache folder."""

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.servers.cache import cache_folder, made_once

FETCH_TRIES: Final = 3
FETCH_SECS: Final = 240


def jar_folder(name: str, coordinates: Sequence[str]) -> Path:
    """Return where the jars of these `group:artifact:version` are, or will be."""
    digest = hashlib.sha256(" ".join(coordinates).encode()).hexdigest()[:12]
    return cache_folder() / f"{name}-{digest}"


def why_no_jars(name: str, coordinates: Sequence[str]) -> str | None:
    """Return why there are no jars, and none can be fetched; None where they can be tried."""
    if shutil.which("java") is None:
        return "java is not installed: scripts/install-system-packages java"
    if shutil.which("mvn") is None and not jar_folder(name, coordinates).is_dir():
        return "mvn is not installed, which fetches the jars: scripts/install-system-packages maven"
    return None


def jars(name: str, coordinates: Sequence[str]) -> list[Path]:
    """Return the jars, in order; the first call on a machine fetches them. Raises RuntimeError with what Maven said."""
    return sorted(made_once(jar_folder(name, coordinates), lambda folder: _fetch(folder, coordinates)).glob("*.jar"))


def _fetch(folder: Path, coordinates: Sequence[str]) -> None:
    pom = folder.parent / "pom.xml"
    pom.write_text(_pom(coordinates))
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
    said = ""
    for _ in range(FETCH_TRIES):
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=FETCH_SECS)
            return
        except subprocess.CalledProcessError as error:
            said = (error.stdout + error.stderr).strip()[-2000:]
        except subprocess.TimeoutExpired:
            said = f"not done after {FETCH_SECS} s"
    raise RuntimeError(f"Maven could not fetch {', '.join(coordinates)} in {FETCH_TRIES} tries:\n{said}")


def _pom(coordinates: Sequence[str]) -> str:
    lines = []
    for group, artifact, version in (one.split(":") for one in coordinates):
        lines.append(f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>")
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>stormcell</groupId><artifactId>servers</artifactId><version>1</version>"
        f"<dependencies>{''.join(lines)}</dependencies></project>\n"
    )
