"""One process of a topology under flow control: `python -m tests.flow.kills.killing TOLD`."""

import asyncio
import json
from dataclasses import asdict, dataclass

from engine import Config, FlowSettings
from tests.flow.kills.journal import Journal
from tests.flow.kills.numbering import TIMEOUT_SECS, Places, numbering_topology
from tests.flow.kills.steps import STEPS
from tests.kills import lives


@dataclass(frozen=True, kw_only=True)
class Death(lives.Death):
    """A death, and the settings of the life before it."""

    pending: int = 200
    """Records beyond the done prefix, at most."""
    interval_ms: float = 5.0
    """Milliseconds between two writes of the position."""


async def main() -> None:
    """Run the topology of the command line."""
    places, death, number = lives.heard(Places, Death)
    config = Config(
        state_provider=f"tests.flow.kills.noting:noting_provider?{json.dumps([number, asdict(places)])}",
        message_timeout_secs=TIMEOUT_SECS,
        call_timeout_secs=1000,  # a record that hangs times out: its pack is called back
        max_task_restarts=1000,
    )
    settings = FlowSettings(
        pack_ms=2, pack_records=min(20, death.pending), max_pending_records=death.pending, checkpoint_interval_ms=death.interval_ms
    )
    await lives.live(numbering_topology(places, Journal(places.journal, number), settings), config, death, STEPS)


if __name__ == "__main__":
    asyncio.run(main())
