"""Adaptive flow control: a send window per bolt task, as in TCP, and a durable position of the source (FC-1 to FC-9)."""

from engine.flow.bolt import FlowControlBolt
from engine.flow.controller import FlowController
from engine.flow.producer import FlowProducer
from engine.flow.records import Records
from engine.flow.settings import FlowSettings
from engine.flow.spout import FlowControlSpout
from engine.flow.status import FlowSnapshot, FlowTaskSnapshot
from engine.kernel import DonePrefix, TaskWindow

__all__ = [
    "DonePrefix",
    "FlowControlBolt",
    "FlowControlSpout",
    "FlowController",
    "FlowProducer",
    "FlowSettings",
    "FlowSnapshot",
    "FlowTaskSnapshot",
    "Records",
    "TaskWindow",
]
