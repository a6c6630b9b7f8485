"""A hand-over folder as a task of the engine has it: claimed, and worked on in a thread."""

import errno
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from engine.errors import FatalError, StateUnavailable
from engine.in_thread import in_thread
from engine.names import POOL_NAME
from engine.state import Patience
from engine.topology import TaskContext
from spark_bridge.handover import Consumer, Contract, HandoverError, Storage, StorageUnavailable
from spark_bridge.handover.contract import read_contract
from spark_bridge.handover.names import CONTRACT, FOLDERS

if TYPE_CHECKING:
    from spark_bridge.committer.spark_handover import SparkHandover

FOR_GOOD: Final = frozenset({errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EROFS, errno.EEXIST})
"""Why a folder cannot be made: no other try would do better."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class FolderOf:
    """The folder of a hand-over, as a resource of a task."""

    handover: "SparkHandover"
    component: str
    """Whose it is: the stager's id."""

    async def open(self, context: TaskContext) -> "OpenFolder":
        """Make the folder and its contract, or see that they are this topology's.

        Raises FatalError where they are another's, StateUnavailable after `state_timeout_secs` without the storage.
        """
        pool = ThreadPoolExecutor(1, thread_name_prefix=f"{POOL_NAME} {context.component_id}")
        handover, component, topology = self.handover, self.component, context.topology_name
        try:
            claim = Patience(context.config.state_timeout_secs).with_(
                lambda: called(pool, lambda: claimed(handover.storage(), handover, topology, component), FOR_GOOD)
            )
            storage, contract = await claim
        except BaseException:
            pool.shutdown(wait=False)
            raise
        return OpenFolder(storage, contract, pool)


class OpenFolder:
    """The folder and one thread."""

    def __init__(self, storage: Storage, contract: Contract, pool: ThreadPoolExecutor) -> None:
        self.storage: Final = storage
        self.contract: Final = contract
        self._pool = pool

    async def call(self, work: Callable[[], _T]) -> _T:
        """Return what work returns, called in the thread, after what was given to it before.

        Raises StateUnavailable where the storage does not do what it should, FatalError for what else is wrong with the folder.
        """
        return await called(self._pool, work)

    def call_later(self, work: Callable[[], object]) -> None:
        """Have the thread do something that nobody waits for, and that raises nothing that matters."""
        self._pool.submit(work)

    async def close(self) -> None:
        """Let go of the thread; what it is doing, it does."""
        self._pool.shutdown(wait=False)


async def called(pool: ThreadPoolExecutor, work: Callable[[], _T], for_good: frozenset[int] = frozenset()) -> _T:
    """Call work in a thread; turn what is wrong with a hand-over into errors of the engine. `for_good`: reasons that do not pass."""
    try:
        return await in_thread(pool, work)
    except StorageUnavailable as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in for_good:
            raise FatalError(error.message, hint="Name a folder that can be made, and written to.") from error
        raise StateUnavailable(error.message, hint=error.hint) from error
    except HandoverError as error:
        raise FatalError(error.message, hint=error.hint) from error


def claimed(storage: Storage, handover: "SparkHandover", topology: str, component: str) -> tuple[Storage, Contract]:
    """Make what is not there of the folder, and return its contract; raise HandoverError where it is another's."""
    for folder in ("", *FOLDERS):
        storage.make_folder(folder)
    mine = Contract(topology, component, handover.arrow_schema, "exclusive" if storage.exclusive else "by attempt")
    found = read_contract(storage)
    if found is None:
        storage.create(CONTRACT, mine.encoded())
        found = read_contract(storage) or mine
    found.check_same(mine, repr(storage.url))
    for name in handover.consumers:
        Consumer(storage, name).add()  # so that a query is told a misspelt name from one that has not read yet
    return storage, found
