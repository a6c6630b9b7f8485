"""Cuts the end of a topic's log while its broker is down, as a broker does that becomes leader without the last records."""

import struct
from pathlib import Path
from typing import Final

HEADER: Final = struct.Struct(">qi")
DERIVED_FILES: Final = ("*.index", "*.timeindex", "*.snapshot", "*.txnindex", "leader-epoch-checkpoint")
CHECKPOINTS: Final = (
    ".kafka_cleanshutdown",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
)


def cut_log(folder: Path, topic: str, offset: int, partition: int = 0) -> None:
    """Delete all batches that begin at this offset or later. The broker derives the other files anew at its start."""
    log_folder = folder / "records" / f"{topic}-{partition}"
    for log in log_folder.glob("*.log"):
        records, at = log.read_bytes(), 0
        while at + HEADER.size <= len(records):
            base, length = HEADER.unpack_from(records, at)
            if base >= offset:
                break
            at += HEADER.size + length
        log.write_bytes(records[:at])
    for pattern in DERIVED_FILES:
        for path in log_folder.glob(pattern):
            path.unlink()
    for name in CHECKPOINTS:
        (folder / "records" / name).unlink(missing_ok=True)
