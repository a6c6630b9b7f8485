"""`state show`: the record of the checkpoint, and the first keys and values of each component, or of a namespace."""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from engine.checkpoint.stored import CommittedState, StoredSizes
from engine.cli.console.formatting import aligned, count_text, name_text, plural
from engine.cli.console.output import write_line
from engine.cli.json_values import json_form, text_form
from engine.cli.stored_state import chosen_components, chosen_topology, component_fields, decoded, is_being_deleted, open_committed_state
from engine.errors import StateError
from engine.json_text import json_text
from engine.names import did_you_mean
from engine.state import StateInventory
from engine.state.namespaces import Name, prefix_of, stored_prefix

KEY_WIDTH: Final = 40
VALUE_WIDTH: Final = 60


class Wanted(NamedTuple):
    """The keys that `state show` is asked for."""

    components: Sequence[str]
    """All components if it is empty."""
    namespace: str | None
    """The text of a name. None: the keys of the plain state."""
    limit: int


async def show_state(inventory: StateInventory, topology: str | None, wanted: Wanted, *, unpickles: bool, as_json: bool) -> None:
    """Write the record of the checkpoint, and the first keys and values of each component."""
    name = await chosen_topology(inventory, topology)
    async with open_committed_state(inventory, name, unpickles=unpickles) as state:
        chosen = [(each, await state.sizes(each)) for each in chosen_components(state, name, wanted.components)]
        if wanted.namespace is not None:
            chosen = _with_namespace(chosen, wanted.namespace)
        if not as_json:
            write_line(_headline(state, name))
        for component_id, sizes in chosen:
            namespace = None if wanted.namespace is None else _namespace_named(wanted.namespace, sizes)
            head = await _head(state, component_id, namespace, wanted.limit)
            if as_json:
                shown = [{"key": json_form(key), "value": json_form(value)} for key, value in head]
                record = {"round": state.record.round, "prepared_round": state.record.prepared_round, "counted": state.record.counted}
                of = {} if namespace is None else {"namespace": namespace}
                write_line(json_text({**component_fields(state, name, component_id, sizes), **record, **of, "head": shown}))
            else:
                keys = _keys_in(namespace, sizes)
                table = _namespaces_table(sizes, wanted.limit) if keys == 0 and sizes.namespaces else _table(head, keys, namespace)
                write_line(f"\n{_described(state, component_id, sizes)}\n{table}")


def _with_namespace(found: list[tuple[str, StoredSizes]], text: str) -> list[tuple[str, StoredSizes]]:
    """Return the components that have a namespace. Raises StateError with other names if none has it."""
    having = [each for each in found if _namespace_named(text, each[1]) is not None]
    if not having:
        names = [str(name) for _, sizes in found for name in sizes.namespaces or ()]
        hint = did_you_mean(text, names) if names else "Nothing is stored in namespaces."
        raise StateError(f"the chosen components have no namespace {text!r}", hint=hint)
    return having


def _namespace_named(text: str, sizes: StoredSizes) -> Name | None:
    """Return the stored name with this text, None if there is none. A number is the int, if both are stored."""
    return next((name for name in sizes.namespaces or () if str(name) == text), None)


def _keys_in(namespace: Name | None, sizes: StoredSizes) -> int | None:
    """Return the number of keys of a namespace, or of the plain state."""
    if sizes.keys is None or sizes.namespaces is None:
        return None
    return sizes.keys - sum(sizes.namespaces.values()) if namespace is None else sizes.namespaces[namespace]


def _headline(state: CommittedState, topology_name: str) -> str:
    committed = f"txid {state.txid} is committed" if state.txid >= 0 else "nothing is committed yet"
    record, codec = state.record, state.codec
    return (
        f"topology {topology_name!r}: {committed}; record: {record.phase} {record.txid}, round {record.round}; "
        f"codec {codec.name}, format {codec.format}"
    )


def _described(state: CommittedState, component_id: str, sizes: StoredSizes) -> str:
    layout = state.layout(component_id)
    parts = [f"{count_text(sizes.keys)} keys, {count_text(sizes.row_bytes + sizes.delta_bytes)} bytes"]
    if sizes.namespaces:
        parts.append(plural(len(sizes.namespaces), "namespace"))
    if sizes.deltas:
        parts.append(f"{count_text(sizes.deltas)} staged deltas")
    if layout is not None:
        parts.append(f"{layout.key_groups} key groups" if layout.keyed else "a separate state for each task")
        parts.append(plural(layout.tasks, "task"))
    if is_being_deleted(state, component_id):
        parts.append("being deleted: incomplete")
    return f"{name_text(component_id)}: {', '.join(parts)}"


async def _head(state: CommittedState, component_id: str, namespace: Name | None, limit: int) -> list[tuple[Any, Any]]:
    head, prefix = list[tuple[Any, Any]](), prefix_of(namespace)
    async with aclosing(state.rows(component_id)) as chunks:  # type: ignore[type-var]
        async for rows in chunks:
            rows = [row for row in rows if stored_prefix(row.key) == prefix]
            head += [decoded(row, state, component_id) for row in rows[: limit - len(head)]]
            if len(head) == limit:
                break
    return head


def _table(head: list[tuple[Any, Any]], keys: int | None, namespace: Name | None) -> str:
    rows = [("key", "value"), *((text_form(key, KEY_WIDTH), text_form(value, VALUE_WIDTH)) for key, value in head)]
    more = (keys or 0) - len(head)
    title = "" if namespace is None else f"namespace {namespace!r}:\n"
    return title + aligned(rows, text_columns=2) + (f"\n… and {count_text(more)} more" if more > 0 else "")


def _namespaces_table(sizes: StoredSizes, limit: int) -> str:
    """Return the namespaces of a component that has no other keys, such as the open windows of a stage."""
    names = list((sizes.namespaces or {}).items())
    rows = [("namespace", "keys"), *((str(name), count_text(keys)) for name, keys in names[:limit])]
    more = f"\n… and {count_text(len(names) - limit)} more" if len(names) > limit else ""
    return f"{aligned(rows, text_columns=1)}{more}\nTo see the keys of one: --namespace NAME"
