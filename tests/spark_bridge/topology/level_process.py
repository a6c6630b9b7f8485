"""Runs one partition of a level in a process of its own, which knows no file of the user. A part of LocalJobs.

python -m tests.spark_bridge.topology.level_process    reads a pickled call of `run_level` from standard input
"""

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from spark_bridge.topology.blocks import Block
from spark_bridge.topology.job import Job
from spark_bridge.topology.level_run import run_level
from spark_bridge.topology.loaded_program import LoadedProgram, load_program
from tests.project.sources import ROOT
from tests.spark_bridge.topology.local_jobs import LocalJobs


class ProcessJobs(LocalJobs):
    """LocalJobs with each partition in another process, which imports nothing from the folder of a topology file."""

    def _level(self, loaded: LoadedProgram, job: Job, level: int, partition: int, blocks: list[Block]) -> Iterator[Block]:
        self.tries += 1
        blocks.sort(key=lambda block: block[:1] + block[2:4])
        call = pickle.dumps((job.program_path, job.attempt, level, partition, self.tries, blocks))
        command = [sys.executable, "-m", __name__]
        done = subprocess.run(command, input=call, capture_output=True, cwd=ROOT, timeout=60, check=False)
        if done.returncode:
            raise OSError(done.stderr.decode())
        yield from pickle.loads(done.stdout)


def main() -> None:
    program_path, *call = pickle.loads(sys.stdin.buffer.read())
    loaded = load_program(Path(program_path).read_bytes())
    sys.stdout.buffer.write(pickle.dumps(list(run_level(loaded, *call))))


if __name__ == "__main__":
    main()
