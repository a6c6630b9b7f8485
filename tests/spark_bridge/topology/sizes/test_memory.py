"""The memory of the engine and of Spark's driver does not depend on the size of a batch (CL-5)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.project.sources import ROOT

pytestmark = [pytest.mark.alone, pytest.mark.deep, pytest.mark.guarantee("CL-5")]

FEW, MANY = 50_000, 500_000
MOST_KIB = 30 << 10
"""Growth from few to many rows. The rows themselves are 45 MB when they are pickled, and more than 100 MB as objects."""
RUN_SECS = 200


@pytest.mark.timeout(RUN_SECS + 40)
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="this system does not tell the peak of a process's memory")
def test_memory_does_not_grow_with_the_batch(spark_here: None) -> None:
    kinds = ["files", "driver", "engine emits, files", "engine emits, driver", "combined, files"]
    argument = json.dumps({"kinds": kinds, "sizes": [FEW, MANY]})
    command = [sys.executable, "-m", "tests.spark_bridge.topology.sizes.life", argument]
    played = subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, timeout=RUN_SECS)
    assert played.returncode == 0, played.stderr[-3000:]
    measured: list[dict[str, Any]] = [json.loads(line) for line in played.stdout.splitlines()]
    peaks = {(each["kind"], each["rows"]): each for each in measured}
    growth = {(kind, process): peaks[kind, MANY][process] - peaks[kind, FEW][process] for kind in kinds for process in ("engine", "driver")}
    assert not {place: f"{kib} KiB" for place, kib in growth.items() if kib > MOST_KIB}
