"""A run whose disk becomes full, and is freed some seconds later: `python -m tests.checkpoint.outages.full_disk FOLDER KIND`.

KIND is `device` if the folder is a small file system of its own, which is filled here. With `limit` no file may grow, as with a quota.
"""

import asyncio
import json
import logging
import os
import resource
import sys
from functools import partial
from pathlib import Path

from tests.checkpoint.outages.kit import judge, play, watch_outage

UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
TROUBLES = {"device": "the disk is full", "limit": "disk I/O error"}


def fill(ballast: Path) -> None:
    """Write until no byte is left."""
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(b"\0" * size) == size:
                    pass
            except OSError:
                continue


def forbid_growth(folder: Path) -> None:
    """Let no file grow beyond the largest one in the folder."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(file.stat().st_size for file in folder.iterdir()), resource.RLIM_INFINITY))


async def main(folder: Path, kind: str) -> None:
    ballast = folder / "ballast"
    begin = partial(fill, ballast) if kind == "device" else partial(forbid_growth, folder)
    end = partial(os.unlink, ballast) if kind == "device" else partial(resource.setrlimit, resource.RLIMIT_FSIZE, UNLIMITED)
    seen = await play(f"sqlite:///{folder}/state.db", lambda run, numbers: watch_outage(run, numbers, begin, end))
    judge(seen, "sqlite", TROUBLES[kind])
    print(json.dumps({"held": seen.snapshot.checkpoint.held}))


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
