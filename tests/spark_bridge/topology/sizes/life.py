"""One process of the engine that measures memory for batches of several sizes: python -m tests.spark_bridge.topology.sizes.life JSON

JSON has `kinds` and `sizes`. For each kind and size it prints a line of JSON with the peaks in KiB: of this process, Spark's JVM, and the
process of the driver's Python.
"""

import asyncio
import gc
import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from engine import Config
from spark_bridge.process import SparkConfig
from spark_bridge.process.spark_child import SparkHold, hold
from spark_bridge.topology import run
from spark_bridge.topology.cluster_run import SPARK_DEFAULTS
from tests.servers import spark_programs
from tests.spark_bridge.topology.sizes.rows import topology_of

SPARK = SparkConfig("local[2]", driver_memory="512m", conf={**SPARK_DEFAULTS, "spark.ui.enabled": "false"}, app_name="sizes")
WARM_UP_ROWS = 50_000


def forget_peak(pid: int | str) -> None:
    """Let the peak of a process begin anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def memory_of(pid: int | str, name: str) -> int:
    """Return VmRSS or VmHWM of a process in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


async def play(kind: str, rows: int) -> list[int]:
    """Run one batch. Return the counted rows and characters."""
    counted: list[int] = []
    topology = topology_of(rows, counted, plans="engine emits" not in kind, combines="combined" in kind)
    shared = "driver" not in kind
    with patch.object(SparkConfig, "is_on_this_machine", shared):
        async with run(topology, Config(), spark=SPARK) as running:
            await running.completed()
            errors = [report.describe() for report in running.snapshot().errors]
    assert not errors, errors
    return counted


async def measure(kind: str, rows: int, held: SparkHold) -> dict[str, Any]:
    """Return the peaks of the processes during one batch."""
    pids = {"engine": "self", "jvm": held.facts["jvm_pid"], "driver": held.facts["pid"]}
    gc.collect()
    for pid in pids.values():
        forget_peak(pid)
    before = {f"{name}_before": memory_of(pid, "VmRSS") for name, pid in pids.items()}
    began = asyncio.get_running_loop().time()
    counted = await play(kind, rows)
    secs = asyncio.get_running_loop().time() - began
    assert "combined" in kind or counted[0] == rows, (counted, rows)
    return {"kind": kind, "rows": rows, "secs": round(secs, 1)} | before | {name: memory_of(pid, "VmHWM") for name, pid in pids.items()}


async def main(kinds: list[str], sizes: list[int]) -> None:
    """Measure each kind with each size."""
    spark_programs.set_environment()
    held = hold(SPARK)
    try:
        await held.call(lambda spark, call: spark.version)
        for kind in kinds:
            await play(kind, WARM_UP_ROWS)
            for rows in sizes:
                print(json.dumps(await measure(kind, rows, held)), flush=True)
    finally:
        await held.close()


if __name__ == "__main__":
    asyncio.run(main(**json.loads(sys.argv[1])))
