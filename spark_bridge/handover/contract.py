"""Contract of a hand-over folder, with its writer, its schema, and the naming of its manifests."""

import base64
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

import pyarrow as pa

from spark_bridge.handover.checked_json import decode, encode, torn_file
from spark_bridge.handover.ddl import ddl_of
from spark_bridge.handover.errors import HandoverError
from spark_bridge.handover.names import CONTRACT
from spark_bridge.handover.schema import schema_of
from spark_bridge.handover.storage import Storage

ManifestNaming: TypeAlias = Literal["exclusive", "by attempt"]
KIND: Final = "contract"
REPAIR: Final = (
    "Restore it from a copy. Or move it away and start the topology with unchanged settings: the topology writes the same contract again."
)


@dataclass(frozen=True, slots=True)
class Contract:
    """Content of `contract.json`. The first engine that opens the folder creates it. The file never changes afterwards."""

    topology: str
    component: str
    schema: pa.Schema
    """Schema of the rows, without `txid` and `batch_time`."""
    manifests: ManifestNaming

    @property
    def by_attempt(self) -> bool:
        """True if the name of a manifest contains its attempt."""
        return self.manifests == "by attempt"

    def encoded(self) -> bytes:
        """Return the content of the file."""
        schema = base64.b64encode(self.schema.serialize().to_pybytes()).decode()
        fields = {"topology": self.topology, "component": self.component, "manifests": self.manifests}
        return encode(KIND, {**fields, "columns": ddl_of(self.schema), "schema": schema})

    def check_same_writer(self, mine: "Contract", where: str) -> None:
        """Raise HandoverError with both values if `mine` has another writer, another schema, or an incompatible naming of manifests."""
        if (self.topology, self.component) != (mine.topology, mine.component):
            text = (
                f"the hand-over {where} is written by component {self.component!r} of topology {self.topology!r}, "
                f"and now by {mine.component!r} of {mine.topology!r}"
            )
            raise HandoverError(text, hint="Give each its own folder, because only one component of one topology may write to a hand-over.")
        if not self.schema.equals(mine.schema):
            text = f"the hand-over {where} has the schema ({ddl_of(self.schema)}), and this topology declares ({ddl_of(mine.schema)})"
            raise HandoverError(text, hint="Declare the schema of the folder, or use a new folder and another name of the topology.")
        if self.manifests == "exclusive" and mine.by_attempt:
            text = f"the hand-over {where} needs a storage that can create files exclusively, and this URL or file system cannot"
            raise HandoverError(text, hint="Use the URL or the file system with which the folder was created.")


def read_contract(storage: Storage) -> Contract | None:
    """Return the contract of a folder. None if it has none."""
    content = storage.read(CONTRACT)
    if content is None:
        return None
    where = f"{storage.url}: {CONTRACT!r}"
    fields = decode(content, KIND, where, REPAIR)
    names: dict[str, Any] = {name: fields.get(name) for name in ("topology", "component", "manifests")}
    if not all(isinstance(name, str) for name in names.values()) or names["manifests"] not in get_args(ManifestNaming):
        raise torn_file(where, f"its fields are {names}", REPAIR)
    try:
        schema = schema_of(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(fields["schema"]))))
    except (KeyError, ValueError, TypeError, OSError, pa.ArrowException, HandoverError) as error:
        raise torn_file(where, f"its schema cannot be read ({type(error).__name__})", REPAIR) from error
    return Contract(names["topology"], names["component"], schema, names["manifests"])
