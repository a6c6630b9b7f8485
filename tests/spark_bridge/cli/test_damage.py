"""Random damage of a small file leads to a clear error or to the same values, never to a traceback."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from engine.errors import EngineError
from spark_bridge.cli.main import run_command_line
from spark_bridge.handover import HandoverError, storage_at
from spark_bridge.handover.checked_json import encode
from spark_bridge.handover.handover import mark_deleted
from spark_bridge.pipeline.folder_checks import claim_checkpoints
from spark_bridge.sinks import Parquet
from spark_bridge.sinks.parquet import POINTER, Complete
from tests.spark_bridge.pipeline.folders import Folder

MEMBERS: Final = ("contract.json", "deleted.json", "manifests/000000000003.json", "consumers/c.json")
SINK: Final = f"sink/{POINTER}"
OWNER: Final = "checkpoints/stormcell.json"
FLIPS: Final = 150
VALUES: Final = (None, True, -1, 1.5, 10**30, "", "7", "../x", [], [7], {}, {"7": "x"})
DEEP: Final = b'{"format": ' + b"[" * 100_000

pytestmark = pytest.mark.guarantee("SP-2", "SP-3")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Return a hand-over with batches 2 and 3, a consumer, a folder of checkpoints, and a sink."""
    made = Folder(tmp_path, consumers=["c"])
    made.write(3)
    made.handover().consumer("c").plan(3)
    made.handover().consumer("c").commit(2)
    mark_deleted(made.storage, 1)
    made.storage.remove("manifests/000000000001.json")
    claim_checkpoints(storage_at(tmp_path / "checkpoints"), made.handover().contract)
    Parquet(str(tmp_path / "sink"))._write_pointer(Complete("q", "id", 4, "txid", 9, 9))
    return made


def reads(folder: Folder, name: str) -> Callable[[], object]:
    """Return a function that reads a file and returns its values."""
    if name == SINK:
        return Parquet(f"{folder.path}/sink").complete
    if name == OWNER:
        return lambda: claim_checkpoints(storage_at(f"{folder.path}/checkpoints"), folder.handover().contract)

    def read() -> object:
        handover = folder.handover()
        found = [handover.contract, handover.deleted(), handover.newest(), handover.consumers(), handover.consumer("c").plan(3)]
        return [*found, handover.manifest(2), handover.manifest(3)]

    return read


def damaged(content: bytes, chosen: random.Random) -> Iterator[bytes]:
    """Yield the content with a flipped byte, cut off, empty, overwritten in the middle, and foreign content."""
    for _ in range(FLIPS):
        changed = bytearray(content)
        changed[chosen.randrange(len(content))] ^= chosen.randrange(1, 256)
        yield bytes(changed)
    for _ in range(20):
        yield content[: chosen.randrange(len(content))]
        at = chosen.randrange(len(content))
        yield content[:at] + chosen.randbytes(40) + content[at + 40 :]
    yield from (b"", b"\0" * len(content), b"\xff\xfe", b"null", b"[]", b"7", b'"x"', b"{}", DEEP, b"9" * 10_000, chosen.randbytes(400))


@pytest.mark.parametrize("name", [*MEMBERS, OWNER, SINK])
def test_random_damage_is_refused_or_changes_nothing(folder: Folder, name: str) -> None:
    path, seed = Path(folder.path, name), random.randrange(2**32)
    content, read = path.read_bytes(), reads(folder, name)
    expected = read()
    for number, changed in enumerate(damaged(content, random.Random(seed))):
        path.write_bytes(changed)
        try:
            found = read()
        except (HandoverError, EngineError) as error:
            found = expected
            assert Path(name).name in str(error), f"seed {seed}, damage {number}"  # noqa: PT017 - not every damage is one
        assert found == expected, f"seed {seed}, damage {number}: {changed!r}"


@pytest.mark.parametrize("name", [*MEMBERS, OWNER, SINK])
def test_wrong_types_are_refused_though_the_checksum_fits(folder: Folder, name: str) -> None:
    path = Path(folder.path, name)
    fields: dict[str, Any] = json.loads(path.read_bytes())
    kind, read = fields["kind"], reads(folder, name)
    mine = {key: value for key, value in fields.items() if key not in ("format", "version", "kind", "checksum")}
    for changed in wrong(mine):
        path.write_bytes(encode(kind, changed))
        try:
            read()
        except (HandoverError, EngineError) as error:
            assert Path(name).name in str(error) or "checkpoints" in str(error), changed  # noqa: PT017 - some are right


def wrong(fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the fields with one of them missing or of another type, also in the first entry of a list."""
    for name, value in fields.items():
        yield {key: each for key, each in fields.items() if key != name}
        yield from ({**fields, name: other} for other in VALUES)
        if isinstance(value, list) and value:
            yield from ({**fields, name: [other, *value[1:]]} for other in (*VALUES, *wrong(value[0])))


@pytest.mark.parametrize("name", MEMBERS)
def test_commands_explain_a_damaged_file(folder: Folder, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path, seed = Path(folder.path, name), random.randrange(2**32)
    content, chosen = path.read_bytes(), random.Random(seed)
    for command in (["look", folder.path], ["look", folder.path, "--txids", "1-", "--json"], ["consumers", folder.path]):
        path.write_bytes(content)
        assert run_command_line(command) == 0
        expected = capsys.readouterr().out
        fields = json.loads(content)
        mine = {key: value for key, value in fields.items() if key not in ("format", "version", "kind", "checksum")}
        forged = (encode(fields["kind"], changed) for changed in chosen.choices(list(wrong(mine)), k=20))
        for changed in (*chosen.sample(list(damaged(content, chosen)), 20), DEEP, b"", *forged):
            path.write_bytes(changed)
            status = run_command_line(command)
            out, err = capsys.readouterr()
            assert status in (0, 2), f"seed {seed}: {err}"
            assert "Traceback" not in out + err, f"seed {seed}"
            assert status == 2 or out == expected or changed.startswith(b'{\n "format"'), f"seed {seed}: {changed!r}"
