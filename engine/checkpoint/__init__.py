"""Makes the state of bolts durable. Barriers flow through the topology. A task saves its state at each barrier (docs/decisions/0002)."""

from typing import TYPE_CHECKING

from engine.lazy_names import lazy_names

if TYPE_CHECKING:
    from engine.checkpoint.bolts import KeepsState, StatefulBasicBolt, StatefulBolt, StatefulBoltFunction, StatefulBurstBolt, stateful_bolt
    from engine.checkpoint.checkpoint_spout import CheckpointSpout
    from engine.checkpoint.checkpoints import Checkpoints
    from engine.checkpoint.feature import CheckpointEntry
    from engine.checkpoint.status import CheckpointSnapshot
else:  # lazy, because the first `build()` of each program imports the feature, and must not import the rest
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "engine.checkpoint.bolts": "KeepsState StatefulBasicBolt StatefulBolt StatefulBoltFunction StatefulBurstBolt stateful_bolt",
            "engine.checkpoint.checkpoint_spout": "CheckpointSpout",
            "engine.checkpoint.checkpoints": "Checkpoints",
            "engine.checkpoint.feature": "CheckpointEntry",
            "engine.checkpoint.status": "CheckpointSnapshot",
        },
    )

__all__ = [
    "CheckpointEntry",
    "CheckpointSnapshot",
    "CheckpointSpout",
    "Checkpoints",
    "KeepsState",
    "StatefulBasicBolt",
    "StatefulBolt",
    "StatefulBoltFunction",
    "StatefulBurstBolt",
    "stateful_bolt",
]
