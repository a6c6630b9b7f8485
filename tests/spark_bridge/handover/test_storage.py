"""Every storage behaves alike: files appear whole, and an existing name is never overwritten by `create` (SP-2)."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.spec import AbstractFileSystem
from pyarrow import fs

from spark_bridge.handover import HandoverError, NameTaken, Storage, StorageUnavailable, storage_at
from spark_bridge.handover.storage import is_draft, local
from spark_bridge.handover.storage.filesystems import FsspecStorage
from tests.spark_bridge.handover.places import EXCLUSIVE, KINDS, storage_of

pytestmark = pytest.mark.guarantee("SP-2")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def storage(kind: str, tmp_path: Path) -> Storage:
    return storage_of(kind, tmp_path)


def test_a_written_file_is_read_and_listed(storage: Storage) -> None:
    assert storage.names("a") == []
    assert storage.read("a/x.json") is None
    assert not storage.exists("a/x.json")
    storage.make_folder("a/b")
    storage.make_folder("a/b")
    assert storage.create("a/x.json", b"one")
    storage.replace("a/y.json", b"two")
    storage.replace("a/y.json", b"three")
    assert (storage.read("a/x.json"), storage.read("a/y.json")) == (b"one", b"three")
    assert sorted(storage.names("a")) == ["x.json", "y.json"], "and no folder, and no draft"
    assert storage.exists("a/x.json")
    storage.remove("a/x.json")
    storage.remove("a/x.json")
    assert storage.names("a") == ["y.json"]


def test_an_existing_file_is_not_created_again(storage: Storage) -> None:
    storage.make_folder("a")
    assert storage.create("a/x", b"one")
    assert not storage.create("a/x", b"two")
    assert storage.read("a/x") == b"one"
    assert storage.names("a") == ["x"]


def test_it_says_whether_it_creates_exclusively(kind: str, storage: Storage) -> None:
    assert storage.exclusive is EXCLUSIVE[kind]


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_one_of_many_concurrent_creations_succeeds(kind: str, tmp_path: Path) -> None:
    storage = storage_of(kind, tmp_path)
    with ThreadPoolExecutor(8) as pool:
        for number in range(20):
            contents = [f"{number} {writer}".encode() * 50 for writer in range(8)]
            created = list(pool.map(storage.create, [f"x{number}"] * 8, contents))
            assert created.count(True) == 1
            assert storage.read(f"x{number}") == contents[created.index(True)]


def test_a_file_is_written_and_read_as_a_stream(storage: Storage) -> None:
    storage.make_folder("files")
    with storage.open_output("files/x") as file:
        file.write(b"abc")
        file.write(b"def")
    with storage.open_input("files/x") as file:
        file.seek(2)
        assert file.read(3) == b"cde"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if EXCLUSIVE[kind]])
def test_an_existing_file_is_not_overwritten(kind: str, tmp_path: Path) -> None:
    storage = storage_of(kind, tmp_path)
    with storage.open_output("x") as file:
        file.write(b"mine")
    with pytest.raises(NameTaken, match="'x' already exists"), storage.open_output("x") as file:
        file.write(b"yours")
    assert storage.read("x") == b"mine"


def test_the_error_of_a_missing_staged_file_names_it(storage: Storage) -> None:
    storage.make_folder("files")
    with pytest.raises(HandoverError, match=r"'files/x' is missing, and a manifest names it"):
        storage.open_input("files/x")


@pytest.mark.parametrize("action", ["create", "replace"])
def test_a_full_disk_is_an_error_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    def full(_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    storage = storage_at(tmp_path)
    monkeypatch.setattr(local, "sync_file", full)
    with pytest.raises(StorageUnavailable, match=r"cannot (create|write) 'x.json': No space left on device") as caught:
        getattr(storage, action)("x.json", b"content")
    assert "Make room" in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_a_file_system_without_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", none)
    with pytest.raises(HandoverError, match="makes no hard link") as caught:
        storage_at(tmp_path).create("x.json", b"content")
    assert not isinstance(caught.value, StorageUnavailable)
    assert os.listdir(tmp_path) == []


class Old:
    """A file system of an older version: it takes any keyword, and has no `mode`."""

    protocol = "abfs"
    async_impl = False

    def pipe_file(self, path: str, value: bytes, **keywords: Any) -> None:
        raise AssertionError("not called")


def test_an_old_version_of_a_file_system_is_not_exclusive() -> None:
    assert not FsspecStorage(Old(), "container/folder", "abfs://container/folder").exclusive


def test_a_url_or_a_file_system_selects_the_storage(tmp_path: Path) -> None:
    assert storage_at(f"file://{tmp_path}/a%20b").url == f"{tmp_path}/a b"
    assert storage_at(tmp_path).url == str(tmp_path)
    assert os.path.isabs(storage_at("x").url)
    given = storage_at(str(tmp_path), filesystem=fsspec.filesystem("file"))
    given.create("x", b"1")
    assert (tmp_path / "x").read_bytes() == b"1"
    arrow = storage_at(str(tmp_path), filesystem=fs.LocalFileSystem())
    assert arrow.read("x") == b"1"
    assert not arrow.create("x", b"2")


@pytest.mark.parametrize(
    ("folder", "filesystem", "text"),
    [
        ("", None, "the folder of a hand-over is ''"),
        (None, None, "the folder of a hand-over is None"),
        ("nosuch://x", None, "'nosuch://x' cannot be reached"),
        ("x", "s3", "str is not a file system"),
    ],
)
def test_an_unreachable_storage_is_an_error(folder: Any, filesystem: object, text: str) -> None:
    with pytest.raises(HandoverError, match=text):
        storage_at(folder, filesystem=filesystem)


def test_a_draft_is_known_by_its_name() -> None:
    assert is_draft(".000000000007.json.host-1-2.tmp")
    assert not is_draft("000000000007.json")


class WithoutItsOwnCreate(AbstractFileSystem):
    """A file system with the name of an object store, and with fsspec's general `mode`, like `ArrowFSWrapper`."""

    protocol = "s3"


def test_a_check_before_a_write_is_not_an_exclusive_create() -> None:
    assert not FsspecStorage(WithoutItsOwnCreate(), "bucket/folder", "s3://bucket/folder").exclusive
