"""What all servers of the tests are."""

from types import TracebackType
from typing import Self

from tests.servers.process import ServerProcess


class Server:
    """A server that may be killed, frozen and started again, on the same port and the same files."""

    process: ServerProcess
    port: int

    def start(self) -> None:
        """Start it, on the files that are there, and return when it answers."""
        raise NotImplementedError

    def kill(self) -> None:
        """End it as by kill -9."""
        self.process.kill()

    def stop(self) -> None:
        """End it as an administrator does."""
        self.process.stop()

    def freeze(self) -> None:
        """Stop its clock: it answers nothing, and its connections stay open."""
        self.process.freeze()

    def thaw(self) -> None:
        """Let a frozen one go on."""
        self.process.thaw()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.end()
