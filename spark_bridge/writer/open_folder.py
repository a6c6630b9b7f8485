"""Hand-over folder as a resource of a task, with settings, the claim for this topology, and a thread."""

import errno
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa

from engine.api import TaskContext
from engine.errors import FatalError, StateUnavailable
from engine.in_thread import in_thread
from engine.names import POOL_NAME
from engine.state import StoreRetry
from spark_bridge.handover import Consumer, Contract, HandoverError, Storage, StorageUnavailable
from spark_bridge.handover.contract import read_contract
from spark_bridge.handover.names import CONTRACT, FOLDERS

PERMANENT_ERRORS: Final = frozenset({errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EROFS, errno.EEXIST})
"""Values of errno for which another attempt to create the folder also fails."""
_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class HandoverSettings:
    """Settings of one `SparkHandover`, in internal form. There is one instance per hand-over, because it is a key of open resources."""

    open_storage: Callable[[], Storage]
    schema: pa.Schema
    compression: str
    keeps_rejects: bool
    """If false, a row that does not fit the schema ends the run."""
    consumers: tuple[str, ...]
    max_pending_batches: int
    keep_batches: int


@dataclass(frozen=True)
class FolderResource:
    """Key and factory of a task's `OpenFolder`."""

    settings: HandoverSettings
    component: str
    """Id of the stager, which the contract names as the writer."""

    async def open(self, context: TaskContext) -> "OpenFolder":
        """Create the folder and its contract, or check that they belong to this topology.

        Raises FatalError if they belong to another one, StateUnavailable if the storage fails for `state_timeout_secs`.
        """
        pool = ThreadPoolExecutor(1, thread_name_prefix=f"{POOL_NAME} {context.component_id}")
        settings, component, topology = self.settings, self.component, context.topology_name
        try:
            claim = StoreRetry(context.config.state_timeout_secs, store="the storage of the hand-over folder").call_with_retries(
                lambda: call_in_thread(pool, lambda: claim_folder(settings.open_storage(), settings, topology, component), PERMANENT_ERRORS)
            )
            storage, contract = await claim
        except BaseException:
            pool.shutdown(wait=False)
            raise
        return OpenFolder(storage, contract, pool)


class OpenFolder:
    """The folder and one thread, which runs one call after the other."""

    def __init__(self, storage: Storage, contract: Contract, pool: ThreadPoolExecutor) -> None:
        self.storage: Final = storage
        self.contract: Final = contract
        self._pool = pool

    async def run_in_thread(self, work: Callable[[], _T]) -> _T:
        """Run work in the thread, after all earlier calls, and return its result.

        Raises StateUnavailable if the storage fails, FatalError if the folder has another fault.
        """
        return await call_in_thread(self._pool, work)

    def submit_to_thread(self, work: Callable[[], object]) -> None:
        """Run work in the thread without waiting. Errors of the work are ignored, so the work must handle important errors."""
        self._pool.submit(work)

    async def close(self) -> None:
        """End the thread after its current call."""
        self._pool.shutdown(wait=False)


async def call_in_thread(pool: ThreadPoolExecutor, work: Callable[[], _T], permanent: frozenset[int] = frozenset()) -> _T:
    """Run work in a thread. Translate failures of the storage into StateUnavailable, other errors of the hand-over into FatalError.

    `permanent`: values of errno that also become FatalError.
    """
    try:
        return await in_thread(pool, work)
    except StorageUnavailable as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in permanent:
            raise FatalError(error.message, hint="Name a folder that can be made and written.") from error
        raise StateUnavailable(error.message, hint=error.hint) from error
    except HandoverError as error:
        raise FatalError(error.message, hint=error.hint) from error


def claim_folder(storage: Storage, settings: HandoverSettings, topology: str, component: str) -> tuple[Storage, Contract]:
    """Create the missing parts of the folder and return its contract. Raise HandoverError if another writer owns it."""
    for folder in ("", *FOLDERS):
        storage.make_folder(folder)
    mine = Contract(topology, component, settings.schema, "exclusive" if storage.exclusive else "by attempt")
    found = read_contract(storage)
    if found is None:
        storage.create(CONTRACT, mine.encoded())
        # Read again, because another engine may have created the contract first. Then its contract counts.
        found = read_contract(storage) or mine
    found.check_same_writer(mine, repr(storage.url))
    # Create the files of declared consumers now, so that a query with a misspelt name is refused.
    for name in settings.consumers:
        Consumer(storage, name).add()
    return storage, found
