"""Topologies as data: their declaration, their rules, and their drawings. Nothing runs here."""

from engine.topology.builder import TopologyBuilder
from engine.topology.declarer import BoltDeclarer, SpoutDeclarer
from engine.topology.factory import trial_faults
from engine.topology.spec import ComponentSettings, ComponentSpec, InstanceFactory, RunPreparation, Subscription, Topology
from engine.topology.validate import config_of_run, run_faults, validate_run

__all__ = [
    "BoltDeclarer",
    "ComponentSettings",
    "ComponentSpec",
    "InstanceFactory",
    "RunPreparation",
    "SpoutDeclarer",
    "Subscription",
    "Topology",
    "TopologyBuilder",
    "config_of_run",
    "run_faults",
    "trial_faults",
    "validate_run",
]
