"""Contains the only list of the engine's features. `docs/decisions/0008-features.md` tells how to add a feature."""

from typing import Final

from engine.checkpoint.feature import CheckpointFeature
from engine.flow.feature import FlowFeature
from engine.topology import TopologyFeature
from engine.transactional.feature import TransactionalFeature

FEATURES: Final[tuple[TopologyFeature, ...]] = (CheckpointFeature(), TransactionalFeature(), FlowFeature())
