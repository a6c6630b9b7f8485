"""Hand-over folder between the engine and Spark, used by both sides (SP-2, SP-3). Needs pyarrow, and no engine."""

try:
    import pyarrow  # noqa: F401 - imported first, so that its absence gets a clear error
except ModuleNotFoundError as error:
    from spark_bridge.installation import install_command

    fix = f"{install_command('arrow')}, or with Spark: {install_command('spark')}"
    raise ModuleNotFoundError(f"spark_bridge needs pyarrow, which is not installed. Install it: {fix}", name=error.name) from None

from spark_bridge.handover.consumers import Consumer, Position
from spark_bridge.handover.contract import Contract
from spark_bridge.handover.ddl import ddl_of
from spark_bridge.handover.errors import (
    ForeignFile,
    HandoverError,
    NameTaken,
    NewerFormat,
    StorageUnavailable,
    TornFile,
    TransactionDeleted,
    TransactionMissing,
)
from spark_bridge.handover.handover import Handover
from spark_bridge.handover.manifest import Manifest, StagedFile, open_staged
from spark_bridge.handover.schema import REJECTS_SCHEMA, RESERVED, schema_of
from spark_bridge.handover.storage import Storage, absolute_folder, storage_at

__all__ = [
    "REJECTS_SCHEMA",
    "RESERVED",
    "Consumer",
    "Contract",
    "ForeignFile",
    "Handover",
    "HandoverError",
    "Manifest",
    "NameTaken",
    "NewerFormat",
    "Position",
    "StagedFile",
    "Storage",
    "StorageUnavailable",
    "TornFile",
    "TransactionDeleted",
    "TransactionMissing",
    "absolute_folder",
    "ddl_of",
    "open_staged",
    "schema_of",
    "storage_at",
]
