"""The interface of all servers of the tests."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from tests.servers.process import ServerProcess


class Server(ABC):
    """A server that may be killed, frozen and restarted on the same port and the same files."""

    process: ServerProcess
    port: int

    @abstractmethod
    def start(self) -> None:
        """Start it on its existing files, and return when it answers."""

    def kill(self) -> None:
        """End it by kill -9."""
        self.process.kill()

    def stop(self) -> None:
        """End it like an administrator."""
        self.process.stop()

    def freeze(self) -> None:
        """Freeze it: it answers nothing, and its connections stay open."""
        self.process.freeze()

    def thaw(self) -> None:
        """Continue a frozen server."""
        self.process.thaw()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.end()
