"""Declares, checks and draws topologies, which are plain data. Nothing runs here."""

from engine.topology.builder import TopologyBuilder
from engine.topology.declarer import BoltDeclarer, SpoutDeclarer
from engine.topology.factory import trial_faults
from engine.topology.spec import ComponentSettings, ComponentSpec, InstanceFactory, Subscription, Topology, TopologyFeature
from engine.topology.validate import config_of_run, run_faults, validate_run

__all__ = [
    "BoltDeclarer",
    "ComponentSettings",
    "ComponentSpec",
    "InstanceFactory",
    "SpoutDeclarer",
    "Subscription",
    "Topology",
    "TopologyBuilder",
    "TopologyFeature",
    "config_of_run",
    "run_faults",
    "trial_faults",
    "validate_run",
]
