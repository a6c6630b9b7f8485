"""States on top of a slow store."""

from collections.abc import Awaitable
from typing import Any

from engine.state import LayeredState, StatePlace, codec_named
from engine.state.codec import CodecName
from tests.state.slow_store import AnySlowStore

NOT_KEYED = StatePlace("count", 0, 1, False, 8)


def state_on(store: AnySlowStore, place: StatePlace = NOT_KEYED, codec: CodecName = "msgpack", **settings: Any) -> LayeredState[Any, Any]:
    return LayeredState(store, codec_named(codec), place, **settings)


async def checkpoint(state: LayeredState[Any, Any], txid: int) -> None:
    await state.prepare_commit(txid)
    await state.commit(txid)


async def restarted(store: AnySlowStore, txid: int, place: StatePlace = NOT_KEYED, **settings: Any) -> LayeredState[Any, Any]:
    state = state_on(store, place, **settings)
    await state.load(txid, lambda *_: True)
    return state


async def counts(state: Awaitable[LayeredState[Any, Any]]) -> dict[Any, Any]:
    return dict((await state).items())
