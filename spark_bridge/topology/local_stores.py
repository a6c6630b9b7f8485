"""Finds stores in files of one machine in the factory of a bolt. On executors of other machines each would have a store of its own."""

import pickletools
from collections.abc import Iterator
from typing import Any, Final

from spark_bridge.process import pickling

_URL: Final = "sqlite:///"
_IN_MEMORY: Final = "sqlite:///:memory:"
_MAP_CLASS: Final = "SqliteValues"


def local_store_faults(where: str, factory: Any) -> Iterator[str]:
    """Yield the reasons why a bolt must not run on other machines. The factory can be pickled."""
    texts = [argument for _, argument, _ in pickletools.genops(pickling.dumps(factory)) if isinstance(argument, str)]
    stores = [text for text in texts if text.startswith(_URL) and text != _IN_MEMORY]
    if _MAP_CLASS in texts:
        stores.insert(0, _MAP_CLASS)
    for store in dict.fromkeys(stores):
        text = f"{where}: {store} is a store in a file of one machine, and each executor would have its own"
        yield f"{text}. Keep the values in Redis or PostgreSQL, or store them in a committer, which runs in the engine's process."
