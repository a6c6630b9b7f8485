"""`Feature` is an extension of topologies and runs. The engine calls features only through this interface (docs/decisions/0008)."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from engine.clock import Clock
from engine.config import Config
from engine.errors import ComponentError
from engine.metrics import Family
from engine.topology import Topology, TopologyFeature
from engine.topology.task_port import RunPort

if TYPE_CHECKING:
    from engine.state import StateProvider  # a run that stores no state must not import the package


@dataclass(frozen=True, slots=True)
class RunStart:
    """Parts of a run that exist before its tasks are planned."""

    clock: Clock
    provider: "StateProvider | None"
    """The state provider, opened for this topology. None if no feature stores anything."""


@dataclass(frozen=True, slots=True)
class RunHandle:
    """Access of a feature to a run that is about to start its tasks."""

    port: RunPort
    component_of: Mapping[int, str]
    """Component ids by task id."""
    end_run: Callable[[ComponentError], None]
    """Ends the run with this error."""
    snapshot: Callable[[], Any]
    """Takes a snapshot of the run (`engine.Snapshot`)."""


class SnapshotEntry(ABC):
    """One entry of a run's snapshot. The entry appears as `snapshot.<name>`, as a key of the JSON, and as metric families."""

    name: str
    value: Any

    @abstractmethod
    def to_json(self) -> Any:
        """Return the value for `json.dumps`."""

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Return the entry of a result of `to_json`. Features of users may leave it out: `top` shows the text of an unknown entry."""
        raise NotImplementedError(f"{cls.__name__} cannot be read from JSON")

    def families(self, topology_name: str) -> Iterable[Family]:
        """Return the metric families of the value."""
        return ()

    def text(self) -> str | None:
        """Return one line for the views, such as `jobs 5 done · 1 running`. None if there is nothing to tell."""
        return None

    def end_text(self) -> str | None:
        """Return a line for the end of a run: what a person must look at, although the run has ended well. None if there is nothing."""
        return None

    def holds_run(self) -> str | None:
        """Return a sentence about the reason why the spouts must wait now. None if the feature does not hold them."""
        return None

    def delays_acks(self, component_id: str) -> str | None:
        """Return a sentence about the reason why open trees of a spout wait for this feature, with advice. None if they do not."""
        return None


def json_number(value: Any) -> Any:
    """Return a value for JSON. Floats have six decimal places. Infinities and NaN are text."""
    if not isinstance(value, float):
        return value
    return round(value, 6) if math.isfinite(value) else str(value)


class FeatureRun:
    """A feature in one run. Subclasses override the methods that they need."""

    async def open(self, topology: Topology, start: RunStart) -> Topology:
        """Open the feature before the tasks are planned. Return the topology to run, which is the given one or has more components.

        If this raises, `close` is called.
        """
        return topology

    def join(self, handle: RunHandle) -> None:
        """Store the handle of the run. Called after `open`, before the tasks start."""

    @property
    def has_work(self) -> bool:
        """True while uncommitted work is left for `finish`."""
        return False

    async def finish(self) -> None:
        """Commit the remaining work. Called at a drain and before the run completes, while no tree is open."""

    async def close(self, *, clean: bool) -> None:
        """Release all resources. Called once, after all tasks are closed. clean: the run is complete or drained."""

    def snapshot_entries(self) -> Iterable[SnapshotEntry]:
        """Return the entries for a snapshot of the run. May be called before `open` and after `close`."""
        return ()


class Feature(TopologyFeature, ABC):
    """A feature that also takes part in runs. `TopologyFeature` validates and rewrites topologies."""

    @abstractmethod
    def new_run(self, topology: Topology, config: Config) -> FeatureRun:
        """Return the feature's object for a new run. Must not open resources, because `FeatureRun.open` opens them."""
