"""Tests topologies in virtual time, with feeder and capture components and injected faults.

This package is public API (docs/TESTING.md).
"""

from engine.testing.capture import Arrival, Capture, CaptureBolt
from engine.testing.events import Events, EventsSpout
from engine.testing.faults import ACKER, DelayTuple, DropTuple, Fault, FaultInjector, InjectedError, KillTask, RaiseError, Strike
from engine.testing.feeder import Feeder, FeederSpout, Verdict
from engine.testing.replaced import replaced
from engine.testing.run_topology import Finished, RunUnfinished, Schedule, run_topology, run_topology_async
from engine.testing.state_provider_suite import StateProviderSuite
from engine.testing.virtual_loop import (
    LeftoverTaskWarning,
    LoopDeadlock,
    RealTimeExceeded,
    VirtualLoopError,
    VirtualTimeExceeded,
    VirtualTimeLoop,
    run_virtual,
)

__all__ = [
    "ACKER",
    "Arrival",
    "Capture",
    "CaptureBolt",
    "DelayTuple",
    "DropTuple",
    "Events",
    "EventsSpout",
    "Fault",
    "FaultInjector",
    "Feeder",
    "FeederSpout",
    "Finished",
    "InjectedError",
    "KillTask",
    "LeftoverTaskWarning",
    "LoopDeadlock",
    "RaiseError",
    "RealTimeExceeded",
    "RunUnfinished",
    "Schedule",
    "StateProviderSuite",
    "Strike",
    "Verdict",
    "VirtualLoopError",
    "VirtualTimeExceeded",
    "VirtualTimeLoop",
    "replaced",
    "run_topology",
    "run_topology_async",
    "run_virtual",
]
