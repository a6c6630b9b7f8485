"""State by key, and where it is kept: memory, SQLite, Redis, or a provider of one's own (docs/decisions/0002)."""

from engine.state.api import KeyValueState, Ledger, LookupStore, ResidentStore, Row, StagedDelta, StateProvider, TaskStore
from engine.state.codec import Codec, CodecName, codec_named
from engine.state.inventory import StateInventory, StoredTopology, TaskDelta
from engine.state.layered import LayeredState
from engine.state.place import StatePlace
from engine.state.providers import provider_of
from engine.state.retry import Patience
from engine.state.sealing import ComponentSeal, SealedStores
from engine.state.standby import take
from engine.state.startup import fold_what_counts, rows_that_count
from engine.state.value_ledger import ValueLedger

__all__ = [
    "Codec",
    "CodecName",
    "ComponentSeal",
    "KeyValueState",
    "LayeredState",
    "Ledger",
    "LookupStore",
    "Patience",
    "ResidentStore",
    "Row",
    "SealedStores",
    "StagedDelta",
    "StateInventory",
    "StatePlace",
    "StateProvider",
    "StoredTopology",
    "TaskDelta",
    "TaskStore",
    "ValueLedger",
    "codec_named",
    "fold_what_counts",
    "provider_of",
    "rows_that_count",
    "take",
]
