"""The contract of a folder: who writes there, what the rows are, and how manifests are named."""

import base64
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

import pyarrow as pa

from spark_bridge.handover.checked_json import decode, encode, torn
from spark_bridge.handover.errors import HandoverError
from spark_bridge.handover.names import CONTRACT
from spark_bridge.handover.schema import ddl_of, schema_of
from spark_bridge.handover.storage import Storage

ManifestNaming: TypeAlias = Literal["exclusive", "by attempt"]
KIND: Final = "contract"
REPAIR: Final = "Restore it from a copy; or move it away, and start the topology as it was: it writes the same contract again."


@dataclass(frozen=True, slots=True)
class Contract:
    """Written once, by the first who writes to the folder."""

    topology: str
    component: str
    schema: pa.Schema
    """Of the rows, without `txid` and `batch_time`."""
    manifests: ManifestNaming

    @property
    def by_attempt(self) -> bool:
        """True where the name of a manifest has its attempt too."""
        return self.manifests == "by attempt"

    def encoded(self) -> bytes:
        """Return the file."""
        schema = base64.b64encode(self.schema.serialize().to_pybytes()).decode()
        fields = {"topology": self.topology, "component": self.component, "manifests": self.manifests}
        return encode(KIND, {**fields, "columns": ddl_of(self.schema), "schema": schema})

    def check_same(self, mine: "Contract", where: str) -> None:
        """Raise HandoverError, which says both, where another writer or other rows want the folder that this contract is of."""
        if (self.topology, self.component) != (mine.topology, mine.component):
            text = (
                f"the hand-over {where} is written by component {self.component!r} of topology {self.topology!r}, "
                f"and now by {mine.component!r} of {mine.topology!r}"
            )
            raise HandoverError(text, hint="Give each its own folder: one component of one topology writes to a hand-over.")
        if not self.schema.equals(mine.schema):
            text = f"the hand-over {where} has rows of ({ddl_of(self.schema)}), and now come rows of ({ddl_of(mine.schema)})"
            raise HandoverError(text, hint="Declare the schema that is there, or begin with a new folder and another name of the topology.")
        if self.manifests == "exclusive" and mine.by_attempt:
            text = f"the hand-over {where} names its manifests exclusively, which this way of reaching it cannot"
            raise HandoverError(text, hint="Reach it as it was reached when it was made: by the same URL or file system.")


def read_contract(storage: Storage) -> Contract | None:
    """Return the contract of a folder, None where there is none."""
    content = storage.read(CONTRACT)
    if content is None:
        return None
    where = f"{storage.url}: {CONTRACT!r}"
    fields = decode(content, KIND, where, REPAIR)
    names: dict[str, Any] = {name: fields.get(name) for name in ("topology", "component", "manifests")}
    if not all(isinstance(name, str) for name in names.values()) or names["manifests"] not in get_args(ManifestNaming):
        raise torn(where, f"it names {names}", REPAIR)
    try:
        schema = schema_of(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(fields["schema"]))))
    except (KeyError, ValueError, TypeError, OSError, pa.ArrowException, HandoverError) as error:
        raise torn(where, f"its schema cannot be read ({type(error).__name__})", REPAIR) from error
    return Contract(names["topology"], names["component"], schema, names["manifests"])
