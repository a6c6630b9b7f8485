"""Lost answers of a storage: clients of object stores, and NFS, repeat the request by themselves (SP-2)."""

import os
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from spark_bridge.handover import Contract, Manifest
from spark_bridge.handover.names import FOLDERS
from spark_bridge.writer.manifest_writer import ManifestWriter
from tests.spark_bridge.handover.places import storage_of

pytestmark = pytest.mark.guarantee("SP-2")


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_a_file_created_by_a_repeated_request_is_accepted(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The repeated request fails because the first one created the name."""
    storage = storage_of(kind, tmp_path)
    for folder in FOLDERS:
        storage.make_folder(folder)
    place: Any = os if kind == "local" else cast(Any, storage)._fs
    name = "link" if kind == "local" else "pipe_file"
    send = getattr(place, name)

    def twice(*what: Any, **how: Any) -> None:
        send(*what, **how)
        send(*what, **how)

    monkeypatch.setattr(place, name, twice)
    with storage.open_output("staged") as file:
        file.write(b"rows")
    assert storage.read("staged") == b"rows"
    writer = ManifestWriter(storage, Contract("t", "spark", pa.schema([("n", pa.int64())]), "exclusive"))
    assert writer.write_manifest(Manifest(1, 2**32 + 1, 5, (), ()))
    assert writer.write_manifest(Manifest(2, 2**32 + 2, 6, (), ()))
    assert writer.handover.newest() == 2
