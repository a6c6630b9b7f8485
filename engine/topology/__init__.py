"""What a user describes: components, streams, groupings, topologies. Nothing runs here."""

from engine.topology.bolt import BasicBolt, BasicResult, Bolt, BoltBase, FailTuple
from engine.topology.builder import TopologyBuilder
from engine.topology.calls import CallKind, call_kind, takes
from engine.topology.collector import Anchors, BasicCollector, BoltCollector, OutputCollector, SpoutCollector, Tuple
from engine.topology.context import TaskContext, UserCounter, UserGauge, UserHistogram
from engine.topology.declarer import BoltDeclarer, SpoutDeclarer
from engine.topology.factory import BoltFactory, CreatesBolt, CreatesSpout, SpoutFactory
from engine.topology.fields import Fields
from engine.topology.function_bolt import BoltFunction, FunctionBolt, bolt
from engine.topology.generator_spout import GeneratorBroken, SpoutFunction, spout
from engine.topology.grouping import (
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
from engine.topology.inlet import Inlet, InletClosed, InletHandle, RunEnded
from engine.topology.spec import ComponentSettings, ComponentSpec, InstanceFactory, Subscription, Topology, TopologyFeature
from engine.topology.spout import MaxSpoutPending, OnError, Spout, SpoutExhausted
from engine.topology.stream import OutputFields, Streams, declare_streams, decorated_fields
from engine.topology.trial import trial_faults
from engine.topology.validate import config_of_run, run_faults, validate_run
from engine.topology.values import Values, wrong_values

__all__ = [
    "All",
    "Anchors",
    "BasicBolt",
    "BasicCollector",
    "BasicResult",
    "Bolt",
    "BoltBase",
    "BoltCollector",
    "BoltDeclarer",
    "BoltFactory",
    "BoltFunction",
    "CallKind",
    "ComponentSettings",
    "ComponentSpec",
    "CreatesBolt",
    "CreatesSpout",
    "Custom",
    "CustomGrouping",
    "Direct",
    "FailTuple",
    "Fields",
    "FieldsGrouping",
    "FunctionBolt",
    "GeneratorBroken",
    "Global",
    "Grouping",
    "Inlet",
    "InletClosed",
    "InletHandle",
    "InstanceFactory",
    "LoadAware",
    "LocalOrShuffle",
    "MaxSpoutPending",
    "NoneGrouping",
    "OnError",
    "OutputCollector",
    "OutputFields",
    "PartialKey",
    "RunEnded",
    "Shuffle",
    "Spout",
    "SpoutCollector",
    "SpoutDeclarer",
    "SpoutExhausted",
    "SpoutFactory",
    "SpoutFunction",
    "Streams",
    "Subscription",
    "TaskContext",
    "Topology",
    "TopologyBuilder",
    "TopologyFeature",
    "Tuple",
    "UserCounter",
    "UserGauge",
    "UserHistogram",
    "Values",
    "bolt",
    "call_kind",
    "config_of_run",
    "declare_streams",
    "decorated_fields",
    "run_faults",
    "spout",
    "takes",
    "trial_faults",
    "validate_run",
    "wrong_values",
]
