"""The features of the engine: the one place that lists them. `docs/decisions/0008-features.md` tells how to add one."""

from typing import Final

from engine.checkpoint.feature import CheckpointFeature
from engine.flow.feature import FlowFeature
from engine.topology import TopologyFeature
from engine.transactional.feature import TransactionalFeature

FEATURES: Final[tuple[TopologyFeature, ...]] = (CheckpointFeature(), TransactionalFeature(), FlowFeature())
