"""What a run makes by the user's factories at its start, made here once and dropped: so `check` finds what a run would refuse."""

from collections.abc import Iterator
from typing import Final

from engine.errors import UsageError, with_hint
from engine.raised import raised_text
from engine.topology.calls import takes
from engine.topology.grouping import Custom
from engine.topology.spec import ComponentSpec, Topology

_GROUPINGS: Final = {"prepare": ("context", "stream", "targets"), "choose_tasks": ("source_task", "values")}
"""The methods of a custom grouping, and what they are called with."""


def trial_faults(topology: Topology) -> list[str]:
    """Return what is wrong with the instances of a topology's components and groupings; nothing is opened or prepared."""
    faults: list[str] = []
    for spec in topology.components.values():
        if not spec.is_replaced:
            faults.extend(_instance_faults(spec))
        for subscription in spec.subscriptions:
            if isinstance(subscription.grouping, Custom):
                faults.extend(_grouping_faults(spec, subscription.source, subscription.grouping))
    for feature in topology.features:
        faults.extend(feature.trial_faults(topology))
    return faults


def _instance_faults(spec: ComponentSpec) -> Iterator[str]:
    """Make an instance, and where there are several tasks another one, since each task needs its own."""
    where = f"{spec.kind} {spec.component_id!r}"
    made: list[object] = []
    try:
        made.extend(spec.factory.create() for _ in range(min(spec.parallelism, 2)))
    except UsageError as error:
        text = with_hint(error.message, error.hint)
        yield text if text.startswith(where) else f"{where}: {text}"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the user's own; it becomes a fault
        fix = "Fix the factory; what needs the world (files, sockets) belongs in open() or prepare()."
        yield f"{where}: its factory raised {raised_text(error)}. {fix}"


def _grouping_faults(spec: ComponentSpec, source: str, grouping: Custom) -> Iterator[str]:
    where = f"bolt {spec.component_id!r}: the custom_grouping() of {source!r}"
    try:
        made = grouping.create()
        missing = [name for name in _GROUPINGS if not callable(getattr(made, name, None))]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the user's own; it becomes a fault
        yield f"{where} raised {raised_text(error)}. Fix what makes it, or its deep copy."
        return
    if missing:
        yield f"{where} gave a {type(made).__name__}, which has no {'() and no '.join(missing)}(). Define what is missing."
    for name, parameters in _GROUPINGS.items():
        if name not in missing and not takes(getattr(made, name), len(parameters)):
            given = ", ".join(parameters)
            yield f"{where}: {type(made).__name__}.{name}() is called with ({given}). Write def {name}(self, {given})."
