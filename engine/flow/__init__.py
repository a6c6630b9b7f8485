"""Controls the flow by a send window per bolt task, and stores the source position (FC-1 to FC-9)."""

from typing import TYPE_CHECKING

from engine.lazy_names import lazy_names

if TYPE_CHECKING:
    from engine.flow.bolt import FlowControlBolt
    from engine.flow.controller import FlowController
    from engine.flow.feature import FlowEntry
    from engine.flow.producer import FlowProducer
    from engine.flow.records import Records
    from engine.flow.settings import FlowSettings
    from engine.flow.spout import FlowControlSpout
    from engine.flow.status import FlowSnapshot, FlowTaskSnapshot
    from engine.kernel import DonePrefix, TaskWindow
else:  # lazy, because the first `build()` of each program imports the feature, and must not import the rest
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "engine.flow.bolt": "FlowControlBolt",
            "engine.flow.controller": "FlowController",
            "engine.flow.feature": "FlowEntry",
            "engine.flow.producer": "FlowProducer",
            "engine.flow.records": "Records",
            "engine.flow.settings": "FlowSettings",
            "engine.flow.spout": "FlowControlSpout",
            "engine.flow.status": "FlowSnapshot FlowTaskSnapshot",
            "engine.kernel": "DonePrefix TaskWindow",
        },
    )

__all__ = [
    "DonePrefix",
    "FlowControlBolt",
    "FlowControlSpout",
    "FlowController",
    "FlowEntry",
    "FlowProducer",
    "FlowSettings",
    "FlowSnapshot",
    "FlowTaskSnapshot",
    "Records",
    "TaskWindow",
]
