"""The face that a Kafka spout shows to the parts that work for it."""

from collections.abc import Coroutine, Iterable
from typing import Any, Protocol

from engine.kafka.source.offset_manager import OffsetManager


class SpoutCallbacks(Protocol):
    """Methods of the spout that the consumer loop calls."""

    def wake(self) -> None:
        """Poll the spout at once."""

    def report(self, error: BaseException) -> None:
        """Report an error that the spout survives."""

    def start_task(self, work: Coroutine[Any, Any, object]) -> object:
        """Start background work. An error of this work ends the spout's instance."""

    def hurry_checkpoints(self, *, on: bool) -> None:
        """Let checkpoints begin as soon as an ack waits for one."""

    def forget_partitions(self, managers: Iterable[OffsetManager]) -> None:
        """Forget these partitions, which this task no longer owns."""
