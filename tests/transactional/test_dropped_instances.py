"""A task that is killed calls no `cleanup`, and leaves no thread and no connection open (ACK-12)."""

import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import BasicBolt, Tuple
from engine.names import POOL_NAME
from engine.testing import KillTask
from engine.transactional import Committer, TransactionalTopologyBuilder
from engine.transactional.files import FileCommitter
from tests.transactional.batch_topologies import Batches, Store, Stores, run_batches

pytestmark = pytest.mark.guarantee("ACK-12")
TEN = [[number] for number in range(10)]


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    """Let nothing be closed by the garbage collector."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def threads_of(component_id: str) -> list[threading.Thread]:
    """Threads of the pools of a component that do not end within a second."""
    found = [thread for thread in threading.enumerate() if thread.name.startswith(f"{POOL_NAME} {component_id}")]
    for thread in found:
        thread.join(1)
    return [thread for thread in found if thread.is_alive()]


def test_the_pool_of_a_killed_bolt_is_closed() -> None:
    cleaned: list[str] = []

    class Blocks(BasicBolt):
        output_fields = "number"
        threads = 2

        def execute(self, tup: Tuple) -> Any:
            return (tup["number"],)

        def cleanup(self) -> None:
            cleaned.append("cleanup")

    store = Store()
    builder = TransactionalTopologyBuilder("threads", "numbers", Batches(TEN))
    builder.set_bolt("blocks", Blocks).shuffle_grouping("numbers")
    builder.set_committer("store", lambda: Stores(store)).global_grouping("blocks")
    finished = run_batches(builder.build(), faults=[KillTask("blocks", at_call=range(1, 8, 2))])
    assert len(finished.strikes) >= 3
    assert cleaned == ["cleanup"]
    assert store.txids[-1] == 10
    assert threads_of("blocks") == []


def test_the_thread_of_a_killed_file_committer_is_closed(tmp_path: Path) -> None:
    builder = TransactionalTopologyBuilder("files", "numbers", Batches(TEN))
    builder.set_committer("files", FileCommitter(tmp_path)).global_grouping("numbers")
    finished = run_batches(builder.build(), faults=[KillTask("files", at_call=range(1, 8, 2))])
    assert len(finished.strikes) >= 3
    assert threads_of("files") == []


def test_a_resource_of_a_killed_task_is_closed() -> None:
    class Connection:
        is_open = True

        async def close(self) -> None:
            self.is_open = False

    class Address:
        async def open(self, context: Any) -> Connection:
            opened.append(Connection())
            return opened[-1]

    class Uses(Committer):
        async def prepare(self) -> None:
            await self.resources.opened(address)

        def execute(self, tup: Tuple) -> None: ...

        def finish_batch(self) -> None: ...

    opened: list[Connection] = []
    address = Address()
    builder = TransactionalTopologyBuilder("resources", "numbers", Batches(TEN))
    builder.set_committer("uses", Uses).global_grouping("numbers")
    run_batches(builder.build(), faults=[KillTask("uses", at_call=range(1, 8, 2))])
    assert len(opened) >= 4
    assert not any(each.is_open for each in opened)
