"""Features of every new topology. Only `engine/features.py` knows their names."""

from collections.abc import Callable

from engine.topology.spec import Kind, TopologyFeature

_load: Callable[[], tuple[TopologyFeature, ...]] = tuple


def supply_features(load: Callable[[], tuple[TopologyFeature, ...]]) -> None:
    """Set the function that returns the features. The first `build()` calls it, so that `import engine` stays fast."""
    global _load
    _load = load


def known_features() -> tuple[TopologyFeature, ...]:
    """Return the features of a new topology."""
    return _load()


def marks_of(kind: Kind, declared: object) -> frozenset[str]:
    """Return the marks of a component, which are the class attributes that features read and that are True."""
    names = (name for feature in known_features() for name in feature.marks.get(kind, ()))
    return frozenset(name for name in names if getattr(declared, name, False) is True)
