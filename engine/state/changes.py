"""Changes of a state that belong to one or more txids: of plain keys, and of the keys of namespaces."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, TypeAlias

from engine.kernel import LayerWalk
from engine.state.namespaces import Name

Layer: TypeAlias = dict[Any, Any]
"""Canonical keys, each with its value, an `Encoded` value, or DELETED."""
Part: TypeAlias = tuple[Name | None, bool, Layer]
"""Changes of one namespace (None: the plain state): its name, whether it was dropped before them, keys and values."""


@dataclass(slots=True)
class NamespaceChanges:
    """Changes of one namespace."""

    layer: Layer
    drops: bool
    """True if the namespace was dropped before these changes, so that older layers and rows do not count."""


@dataclass(slots=True)
class Changes:
    """Changes of plain keys, and of namespaces by name."""

    layer: Layer = field(default_factory=dict)
    namespaces: dict[Name, NamespaceChanges] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.layer or self.namespaces)

    def __len__(self) -> int:
        """Return the number of keys and of dropped namespaces."""
        return len(self.layer) + sum(len(each.layer) + each.drops for each in self.namespaces.values())

    def parts(self) -> Iterator[Part]:
        """Yield the parts, the plain keys first."""
        return chain([(None, False, self.layer)], ((name, each.drops, each.layer) for name, each in self.namespaces.items()))

    def entries(self) -> "Iterator[tuple[Name | None, bool, Iterable[tuple[Any, Any]]]]":
        """Yield the parts for `frames`."""
        return ((name, drops, layer.items()) for name, drops, layer in self.parts())

    def add(self, part: Part) -> None:
        """Apply newer changes of one namespace, or of the plain state."""
        name, drops, layer = part
        if name is None:
            self.layer.update(layer)
        elif drops or name not in self.namespaces:
            self.namespaces[name] = NamespaceChanges(dict(layer), drops)
        else:
            self.namespaces[name].layer.update(layer)

    def dropped(self) -> list[Name]:
        """Return the names of the dropped namespaces."""
        return [name for name, each in self.namespaces.items() if each.drops]


def slices(layer: Layer, size: int) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield keys and values of a layer, in lists of up to size entries. The layer must get no new keys, but its values may be replaced."""
    walk = LayerWalk(layer)
    while (entries := walk.take(size))[0]:
        yield entries


def frames(parts: Iterable[tuple[Name | None, bool, Iterable[tuple[Any, Any]]]], most_rows: Callable[[], int]) -> Iterator[list[Part]]:
    """Split parts into lists of bounded size. most_rows: returns the size of the next list, as `rows_in` counts."""
    frame, room = list[Part](), most_rows()
    for name, drops, pairs in parts:
        items = iter(pairs)
        while True:
            layer = dict(islice(items, room))
            if layer or drops:
                frame.append((name, drops, layer))
                room -= len(layer) or 1
                drops = False
            if room > 0:
                break
            yield frame
            frame, room = [], most_rows()
    if frame:
        yield frame


def rows_in(frame: Iterable[Part]) -> int:
    """Return the number of keys in a list of parts. A drop without keys counts as one."""
    return sum(len(layer) or 1 for _, _, layer in frame)
