"""Up to which txid nothing is left of a folder: raised before anything of it goes, so that what is gone is never taken for lost."""

from typing import Final

from spark_bridge.handover.checked_json import decode, encode
from spark_bridge.handover.errors import TornFile
from spark_bridge.handover.names import DELETED
from spark_bridge.handover.storage import Storage

KIND: Final = "deleted"


def read_deleted(storage: Storage) -> int:
    """Return up to which txid nothing is left; 0 where nothing was deleted."""
    content = storage.read(DELETED)
    if content is None:
        return 0
    where = f"{storage.url}: {DELETED!r}"
    txid = decode(content, KIND, where).get("txid")
    if type(txid) is not int:
        raise TornFile(f"{where} has no txid", hint="Restore it from a copy.")
    return txid


def note_deleted(storage: Storage, txid: int) -> None:
    """Write that nothing up to a txid is to be asked for any more."""
    storage.replace(DELETED, encode(KIND, {"txid": txid}))
