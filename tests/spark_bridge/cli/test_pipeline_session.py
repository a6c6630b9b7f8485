"""`run` as a separate process, stopped by a signal."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.spark_bridge.pipeline.folders import Folder, numbers, read_numbers

pytestmark = pytest.mark.deep

FLOW = """
def pipeline(batch, txid):
    batch.write.mode("overwrite").parquet(f"OUT/txid={txid}")
"""
COMMAND = ("-m", "spark_bridge", "run", "flow.py", "--folder", "handover", "--json")
SMALL = ("--master", "local[1]", "--driver-memory", "512m", "--conf", "spark.sql.shuffle.partitions=1")


@pytest.mark.timeout(300)
@pytest.mark.guarantee("RUN-3", "RUN-4")
@pytest.mark.usefixtures("spark_here")
async def test_a_signal_stops_run_after_its_micro_batch_and_json_reports_it(tmp_path: Path) -> None:
    Folder(tmp_path / "handover", consumers=["pipeline"]).write(2)
    (tmp_path / "flow.py").write_text(FLOW.replace("OUT", str(tmp_path / "out")))
    pipe = asyncio.subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *COMMAND, *SMALL, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, limit=2**20
    )
    assert process.stdout is not None
    events = []
    try:
        async with asyncio.timeout(200):
            async for line in process.stdout:
                events.append(json.loads(line))
                queries = events[-1].get("queries") or [{"batches": 0}]
                if queries[0]["batches"] and not any(event["event"] == "note" for event in events):
                    process.send_signal(signal.SIGINT)
                    events.append({"event": "note"})
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert [event["event"] for event in events if event["event"] != "snapshot"][:2] == ["start", "note"]
    end = events[-1]
    assert (end["event"], end["exit_status"], end["state"], end["error"]) == ("end", 0, "stopped", None)
    (query,) = end["snapshot"]["queries"]
    assert (query["name"], query["rows"], query["lag"], query["status"]) == ("pipeline", 20, 0, "stopped")
    assert read_numbers(tmp_path / "out") == numbers(1, 2)
    assert (tmp_path / "flow.checkpoints" / "pipeline" / "offsets" / "0").exists()
