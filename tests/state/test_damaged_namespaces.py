"""Damaged stores with namespaces: the written values are read, or there is a clear error (CP-11, CP-12)."""

import asyncio
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine.errors import StateError
from engine.state import LayeredState, SealedStores, StatePlace, codec_named, provider_of
from tests.checkpoint.stored_states import write_panes
from tests.state.test_damage import damaged, printed

pytestmark = pytest.mark.guarantee("CP-11", "CP-12")
PLACES = [StatePlace("count", index, 2, True, 8) for index in range(2)]
Found = dict[Any, dict[Any, Any]]


async def read_all(url: str) -> Found:
    """Return the plain keys (None) and the namespaces, as the tasks of the next run find them."""
    provider = provider_of(url)
    await provider.open("counts")
    found: Found = {None: {}}
    stores = SealedStores(provider, "counts", {"count": True}, txid=lambda: 1, bare=False)
    try:
        for place in PLACES:
            store = await stores.store("count", place.task_index, place.slots)
            state: LayeredState[Any, Any] = LayeredState(store, codec_named("msgpack"), place)
            try:
                await state.load(1, lambda txid, round_: (txid, round_) in {(0, 1), (1, 2)})
                await store.check()
                found[None] |= dict(state.items())
                for name in state.namespaces():
                    found.setdefault(name, {}).update(state.namespace(name).items())
            finally:
                with suppress(StateError):
                    await state.close(fold=False)
        return found
    finally:
        await provider.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "state.db"
    asyncio.run(write_panes(f"sqlite:///{path}", folds=False))
    return path


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file_gives_the_written_values_or_an_error(
    seed: int, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = printed(whole, capsys)
    shutil.copy(whole, tmp_path / "whole.db")
    values = asyncio.run(read_all(f"sqlite:///{tmp_path}/whole.db"))
    assert set(values) == {None, -5, 1_700_000_000_000_000, "late"}
    path = tmp_path / "state.db"
    shutil.copy(whole, path)
    how = damaged(path, Random(seed))
    for command, (status, out) in printed(path, capsys).items():
        assert status == 2 or out == expected[command][1], how
    with suppress(StateError):
        assert asyncio.run(read_all(f"sqlite:///{path}")) == values, how
