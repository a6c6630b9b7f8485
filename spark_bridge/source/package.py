"""Writes the zip that executors need. The zip has the parts of this package that need only pyarrow.

python -m spark_bridge.source.package stormcell-spark.zip
PYTHONPATH=stormcell-spark.zip spark-submit --py-files stormcell-spark.zip program.py

`--py-files` serves the executors. On the driver's machine Spark runs a Python process for offsets, and Spark 4.1 does not pass those files
to it. The process needs the package in PYTHONPATH, or installed. The same holds for a Connect server and `addArtifacts`.
"""

import os
import sys
import zipfile
from pathlib import Path
from typing import Final

PACKAGE: Final = "spark_bridge"
SHIPPED: Final = (
    "__init__.py",
    "installation.py",
    "process_identity.py",
    "handover",
    "source",
    "sinks",
    "pipeline/__init__.py",
    "pipeline/offsets.py",
)
"""Files that need no engine. A Connect server calls per-batch functions through `pipeline.offsets`."""
LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)
"""Time of each entry, so that the same package always gives the same zip."""


def package_zip(path: str | os.PathLike[str]) -> str:
    """Write the zip and return its path, for `--py-files`, `sparkContext.addPyFile`, or `spark.addArtifacts(path, pyfile=True)`.

    >>> spark.addArtifacts(package_zip("/tmp/stormcell-spark.zip"), pyfile=True)              # doctest: +SKIP
    """
    base = Path(__file__).parent.parent
    files = [file for name in SHIPPED for file in (sorted((base / name).rglob("*.py")) if (base / name).is_dir() else [base / name])]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            entry = zipfile.ZipInfo(f"{PACKAGE}/{file.relative_to(base).as_posix()}", LONG_AGO)
            archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return os.fspath(path)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("Usage: python -m spark_bridge.source.package OUT.zip")
    print(package_zip(sys.argv[1]))
