"""Up to which txid nothing is left of a folder: raised before anything of it goes, so that what is gone is never taken for lost."""

from typing import Final

from spark_bridge.handover.checked_json import decode, encode, torn
from spark_bridge.handover.names import DELETED
from spark_bridge.handover.storage import Storage

KIND: Final = "deleted"
REPAIR: Final = "Restore it from a copy; or move it away: the engine writes it anew when it deletes next."


def read_deleted(storage: Storage) -> int:
    """Return up to which txid nothing is left; 0 where nothing was deleted."""
    content = storage.read(DELETED)
    if content is None:
        return 0
    where = f"{storage.url}: {DELETED!r}"
    txid = decode(content, KIND, where, REPAIR).get("txid")
    if type(txid) is not int or not 0 <= txid < 2**63:
        raise torn(where, f"its txid is {txid!r}", REPAIR)
    return txid


def note_deleted(storage: Storage, txid: int) -> None:
    """Write that nothing up to a txid is to be asked for any more."""
    storage.replace(DELETED, encode(KIND, {"txid": txid}))
