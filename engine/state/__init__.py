"""Stores state by key in memory, SQLite, Redis, or a user's own provider (docs/decisions/0002).

ZooKeeper stores only ledgers, and PostgreSQL only maps of values.
"""

from engine.state.api import (
    Ledger,
    LookupStore,
    ResidentStore,
    Row,
    StagedDelta,
    StateInventory,
    StatePlace,
    StateProvider,
    StoredTopology,
    TaskDelta,
    TaskStore,
)
from engine.state.checksums import ComponentSeal, SealedStores
from engine.state.codec import Codec, CodecName, codec_named
from engine.state.delta import committed_rows, fold_committed
from engine.state.key_values import KeyValueState, StateNamespace
from engine.state.layered import LayeredState
from engine.state.ledgers import ValueLedger
from engine.state.providers import provider_of
from engine.state.retry import StoreRetry
from engine.state.standby import open_provider

__all__ = [
    "Codec",
    "CodecName",
    "ComponentSeal",
    "KeyValueState",
    "LayeredState",
    "Ledger",
    "LookupStore",
    "ResidentStore",
    "Row",
    "SealedStores",
    "StagedDelta",
    "StateInventory",
    "StateNamespace",
    "StatePlace",
    "StateProvider",
    "StoreRetry",
    "StoredTopology",
    "TaskDelta",
    "TaskStore",
    "ValueLedger",
    "codec_named",
    "committed_rows",
    "fold_committed",
    "open_provider",
    "provider_of",
]
