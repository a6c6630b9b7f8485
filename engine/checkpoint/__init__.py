"""State that survives: aligned barriers through the topology, and what every task does at one (docs/decisions/0002)."""

from engine.checkpoint.checkpoint_spout import CheckpointSpout
from engine.checkpoint.checkpoints import Checkpoints
from engine.checkpoint.function_bolt import StatefulBoltFunction, stateful_bolt
from engine.checkpoint.stateful_bolt import KeepsState, StatefulBasicBolt, StatefulBolt
from engine.checkpoint.status import CheckpointSnapshot

__all__ = [
    "CheckpointSnapshot",
    "CheckpointSpout",
    "Checkpoints",
    "KeepsState",
    "StatefulBasicBolt",
    "StatefulBolt",
    "StatefulBoltFunction",
    "stateful_bolt",
]
