"""Counts the records of a topic, until it is killed: python -m tests.kills.program … tests/kafka/killed_exact.py FILE.json"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Final

from tests.kafka.exact_play import Told, count_all
from tests.kafka.play import settings
from tests.kills.moments import after, before
from tests.kills.steps import Step

FAILS_ONCE: Final = range(7, 10**6, 101)
"""Values whose first call in a process fails."""
_TARGETS: Final = {
    "put": ("engine.state.layered:LayeredState.put", before),
    "position": ("engine.kafka.source.ledger_positions:LedgerPositions.position", after),
    "prepare": ("engine.checkpoint.source_task:SourceTask.prepare", after),
    "before save": ("engine.checkpoint.checkpoints:Checkpoints.save", before),
    "after save": ("engine.checkpoint.checkpoints:Checkpoints.save", after),
    "note committed": ("engine.kafka.source.ledger_positions:LedgerPositions.note_committed", before),
    "group commit": ("engine.kafka.source.group_commits:GroupCommits._commit", before),
    "seek": ("engine.kafka.source.ledger_positions:LedgerPositions.begin", after),
    "open": ("engine.kafka.source.partitions:Partitions.open_partition", after),
    "rollback": ("engine.runtime.rollback:Rollback.run", before),
}
STEPS: Final = {name: Step(name, target, moment) for name, (target, moment) in _TARGETS.items()}


async def main(plan: dict[str, Any]) -> None:
    """Count to the end of the topic."""
    config = settings(plan["kafka"], plan["topic"], group=plan["group"], max_poll_records=50)
    told = Told(lambda value, call: value in FAILS_ONCE and call == 1)
    await count_all(config, Path(plan["folder"]), told, plan["tasks"], max_spout_pending=100)


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
