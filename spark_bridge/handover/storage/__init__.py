"""Where a hand-over folder is: a local folder, or a file system of pyarrow or fsspec."""

from spark_bridge.handover.storage.api import Storage, is_draft
from spark_bridge.handover.storage.choose import storage_at

__all__ = ["Storage", "is_draft", "storage_at"]
