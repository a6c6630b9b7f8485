"""Defines the base classes, decorators and types for user code.

The compiled collectors and the contexts that a run passes to user code implement the Protocols of this package.
"""

from engine.api.arguments import CallKind, call_kind, takes
from engine.api.bolt import BasicBolt, BasicResult, Bolt, BoltBase, BoltFactory, CreatesBolt, FailTuple, OnBoltError
from engine.api.burst_bolt import Burst, BurstBolt, BurstCollector, BurstResult, FunctionBurstBolt
from engine.api.collector import Anchors, BasicCollector, BoltCollector, OutputCollector, SpoutCollector, Tuple
from engine.api.context import TaskContext, UserCounter, UserGauge, UserHistogram
from engine.api.fields import Fields, OutputFields, Streams, Values, declare_streams, decorated_fields, wrong_values
from engine.api.function_bolt import BoltFunction, FunctionBolt, bolt
from engine.api.function_spout import SpoutFunction, spout
from engine.api.generator_spout import FromGenerator, GeneratorBroken
from engine.api.grouping import (
    All,
    Custom,
    CustomGrouping,
    Direct,
    FieldsGrouping,
    Global,
    Grouping,
    LoadAware,
    LocalOrShuffle,
    NoneGrouping,
    PartialKey,
    Shuffle,
)
from engine.api.inlet import Calls, Inlet, InletClosed, InletHandle, Reply, RunEnded
from engine.api.spout import BurstSpout, CreatesSpout, MaxSpoutPending, OnError, Spout, SpoutExhausted, SpoutFactory

__all__ = [
    "All",
    "Anchors",
    "BasicBolt",
    "BasicCollector",
    "BasicResult",
    "Bolt",
    "BoltBase",
    "BoltCollector",
    "BoltFactory",
    "BoltFunction",
    "Burst",
    "BurstBolt",
    "BurstCollector",
    "BurstResult",
    "BurstSpout",
    "CallKind",
    "Calls",
    "CreatesBolt",
    "CreatesSpout",
    "Custom",
    "CustomGrouping",
    "Direct",
    "FailTuple",
    "Fields",
    "FieldsGrouping",
    "FromGenerator",
    "FunctionBolt",
    "FunctionBurstBolt",
    "GeneratorBroken",
    "Global",
    "Grouping",
    "Inlet",
    "InletClosed",
    "InletHandle",
    "LoadAware",
    "LocalOrShuffle",
    "MaxSpoutPending",
    "NoneGrouping",
    "OnBoltError",
    "OnError",
    "OutputCollector",
    "OutputFields",
    "PartialKey",
    "Reply",
    "RunEnded",
    "Shuffle",
    "Spout",
    "SpoutCollector",
    "SpoutExhausted",
    "SpoutFactory",
    "SpoutFunction",
    "Streams",
    "TaskContext",
    "Tuple",
    "UserCounter",
    "UserGauge",
    "UserHistogram",
    "Values",
    "bolt",
    "call_kind",
    "declare_streams",
    "decorated_fields",
    "spout",
    "takes",
    "wrong_values",
]
