"""Adaptive flow control: a window for each bolt task, after TCP's, and a position below which all is done (FC-1 to FC-8)."""

from engine.flow.bolt import FlowControlBolt
from engine.flow.controller import FlowController
from engine.flow.pack import Records
from engine.flow.producer import FlowProducer
from engine.flow.settings import FlowSettings
from engine.flow.spout import FlowControlSpout
from engine.flow.status import FlowSnapshot, FlowTaskSnapshot
from engine.kernel import AdaptiveFlowConsumer, DonePrefix

__all__ = [
    "AdaptiveFlowConsumer",
    "DonePrefix",
    "FlowControlBolt",
    "FlowControlSpout",
    "FlowController",
    "FlowProducer",
    "FlowSettings",
    "FlowSnapshot",
    "FlowTaskSnapshot",
    "Records",
]
