"""Validation of topologies (GRP-5). Pure functions return faults: texts that name the place and the fix."""

import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from engine.api.grouping import Custom, Direct, FieldsGrouping, PartialKey
from engine.config import Config
from engine.errors import TopologyError, UsageError
from engine.names import is_reserved, is_writable, nearest
from engine.raised import raised_text
from engine.topology.diverting import diverting_faults
from engine.topology.spec import ComponentSpec, Subscription, Topology

NO_SPOUT: Final = "no spout: nothing would ever be emitted. Add one with set_spout()."


def validate_run(topology: Topology, config: Config) -> None:
    """Raise TopologyError if a topology cannot run with this config. A run also calls this function.

    Raises UsageError in a new process that still imports its program, because each such process would start processes of its own.
    """
    process = sys.modules.get("multiprocessing.process")
    if process is not None and getattr(process.current_process(), "_inheriting", False):
        raise UsageError(
            f"topology {topology.name!r} starts to run while a new process imports this program",
            hint="Put the start of the program below if __name__ == '__main__':. Each process of a bolt imports the file.",
        )
    faults = run_faults(topology, config)
    if faults:
        raise TopologyError(faults, topology_name=topology.name)


def config_of_run(function: str, topology: object, config: object) -> Config:
    """Return the config of a run, which is the given one, else that of the topology, else the defaults.

    Raises UsageError for other objects.
    """
    if not isinstance(topology, Topology):
        raise UsageError(f"{function}() needs a topology, not {topology!r}", hint="Pass what TopologyBuilder.build() returned.")
    if config is None:
        return topology.config or Config()
    if not isinstance(config, Config):
        hint = "Write Config(burst=64)" + (", or Config.from_mapping(...)." if isinstance(config, Mapping) else ".")
        raise UsageError(f"{function}() needs a Config, not {config!r}", hint=hint)
    return config


def id_faults(kind: str, component_id: object) -> Iterator[str]:
    """Yield the faults of a user's component id."""
    if not isinstance(component_id, str) or not component_id:
        yield f"{kind} {component_id!r}: an id must be a non-empty str. Fix set_{kind}()."
    elif not is_writable(component_id):
        yield f"{kind} {component_id!r}: an id must be text that can be written as UTF-8. Fix set_{kind}()."
    elif is_reserved(component_id):
        yield f"{kind} {component_id!r}: ids that begin with '__' or '$' are the engine's own. Rename it."


def graph_faults(topology: Topology, unknown: Collection[str] = ()) -> list[str]:
    """Return the faults that no config can correct. unknown: components whose streams are unknown, and therefore not checked."""
    faults = [] if topology.spouts else [NO_SPOUT]
    for spec in topology.components.values():
        faults.extend(_input_faults(spec, topology.components, unknown))
    faults.extend(diverting_faults(topology))
    return [*faults, *(fault for feature in topology.features for fault in feature.graph_faults(topology))]


def name_faults(where: str, subscription: Subscription) -> Iterator[str]:
    """Yield a fault for each name of a source, stream or field in a subscription that is not a str."""
    method = subscription.grouping.method
    named: list[tuple[str, object]] = [("component", subscription.source), ("stream", subscription.stream)]
    if isinstance(subscription.grouping, (FieldsGrouping, PartialKey)):
        named.extend(("field", name) for name in subscription.grouping.names)
    for what, name in named:
        if not isinstance(name, str):
            yield f"{where}: {method}() got {name!r} ({type(name).__name__}) as the name of a {what}. Pass a str."


def run_faults(topology: Topology, config: Config) -> list[str]:
    """Return the faults of the cycles, key groups and features of a topology with this config."""
    found = [*_key_group_faults(topology, config), *_cycle_faults(topology, config), *_adapted_faults(topology, config)]
    found += [fault for feature in topology.features for fault in feature.run_faults(topology, config)]
    if config.standby and not topology.stored:
        found.append("standby=True needs a topology that stores state, but this topology stores none. Set standby=False.")
    return found


def _adapted_faults(topology: Topology, config: Config) -> Iterator[str]:
    """Yield a fault if max_spout_pending="auto" cannot work with this config (FC-8)."""
    adapted = [spec for spec in topology.spouts if spec.pending_bound(config) == "auto"]
    if adapted and config.acker_executors == 0:
        yield (
            f"{adapted[0].where}: max_spout_pending='auto' needs acks, and acker_executors=0 switches them off. "
            "Set Config(acker_executors=1), or leave max_spout_pending out."
        )


def _input_faults(spec: ComponentSpec, components: Mapping[str, ComponentSpec], unknown: Collection[str]) -> Iterator[str]:
    where = spec.where
    if spec.kind == "spout" and spec.subscriptions:
        yield f"{where}: a spout takes no input, but it subscribes to {spec.subscriptions[0].source!r}. Remove that, or write a bolt."
        return
    seen: dict[tuple[str, str], Subscription] = {}
    for subscription in spec.subscriptions:
        wrong = list(name_faults(where, subscription))
        if wrong:
            yield from wrong
            continue
        source = components.get(subscription.source)
        earlier = seen.setdefault((subscription.source, subscription.stream), subscription)
        if source is None:
            yield _unknown_component(where, subscription, components)
            continue
        if earlier is not subscription:
            yield (
                f"{where}: subscribes to stream {subscription.stream!r} of {subscription.source!r} twice ({earlier.grouping.label}, "
                f"{subscription.grouping.label}), so it would get each tuple twice. Keep one grouping."
            )
        yield from _grouping_faults(where, subscription)
        if subscription.source not in unknown:
            yield from _stream_faults(where, subscription, source)


def _unknown_component(where: str, subscription: Subscription, components: Mapping[str, ComponentSpec]) -> str:
    near = nearest(subscription.source, components)
    fix = f"Did you mean {near!r}?" if near else f"Fix {subscription.grouping.method}() or declare {subscription.source!r}."
    return f"{where}: there is no component {subscription.source!r} (there are: {', '.join(components)}). {fix}"


def _grouping_faults(where: str, subscription: Subscription) -> Iterator[str]:
    """Yield the faults of the grouping itself."""
    grouping = subscription.grouping
    if isinstance(grouping, (FieldsGrouping, PartialKey)) and not grouping.names:
        yield f"{where}: {grouping.method}({subscription.source!r}) names no field. Name at least one."
    if isinstance(grouping, Custom):
        try:
            is_factory = grouping.is_factory
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the user's own; it becomes a fault
            yield f"{where}: inspecting the argument of custom_grouping() raised {raised_text(error)}. Correct it."
            return
        if isinstance(grouping.grouping, type) and not hasattr(grouping.grouping, "choose_tasks"):
            yield f"{where}: custom_grouping() was given {grouping.grouping.__name__}, which has no choose_tasks(). Define it."
        elif is_factory and not callable(grouping.grouping):
            yield (
                f"{where}: custom_grouping() was given {grouping.grouping!r}, which has no choose_tasks() and makes nothing. "
                "Pass a CustomGrouping, its class, or a callable that returns one."
            )


def _stream_faults(where: str, subscription: Subscription, source: ComponentSpec) -> Iterator[str]:
    """Yield the faults of a subscription to its stream."""
    grouping = subscription.grouping
    stream = f"stream {subscription.stream!r} of {source.component_id!r}"
    fields = source.streams.get(subscription.stream)
    if fields is None:
        there = f"it has: {', '.join(source.streams)}" if source.streams else "it declares none"
        yield (
            f"{where}: {source.component_id!r} has no stream {subscription.stream!r} ({there}). "
            f"Fix {grouping.method}() or {source.fields_declared_at}."
        )
        return
    if isinstance(grouping, (FieldsGrouping, PartialKey)):
        for name in dict.fromkeys(grouping.names):
            if name not in fields:
                there = f"it has: {', '.join(fields)}" if len(fields) else "it has none"
                yield f"{where}: {stream} has no field {name!r} ({there}). Fix {grouping.method}() or {source.fields_declared_at}."
    if isinstance(grouping, Direct) and not fields.direct:
        yield f"{where}: direct_grouping() on {stream}, which is not direct. Fix the grouping, or declare Fields(..., direct=True)."
    elif fields.direct and not isinstance(grouping, Direct):
        fix = (
            "direct_grouping(): the spout chooses the task"
            if source.chooses_tasks
            else "direct_grouping(), or declare it without direct=True"
        )
        yield f"{where}: {grouping.method}() on {stream}, which is direct. Use {fix}."


def _key_group_faults(topology: Topology, config: Config) -> Iterator[str]:
    for spec in topology.bolts:
        grouped = any(isinstance(subscription.grouping, FieldsGrouping) for subscription in spec.subscriptions)
        if grouped and spec.parallelism > config.key_groups:
            yield (
                f"{spec.where}: parallelism {spec.parallelism} is above key_groups ({config.key_groups}), so behind its fields grouping "
                f"some tasks would get nothing. Lower it, or set Config(key_groups={spec.parallelism}) or more."
            )


def _cycle_faults(topology: Topology, config: Config) -> Iterator[str]:
    """Yield a fault for each spout that feeds a cycle without a bound (BP-5)."""
    closing = _in_order(topology)
    if closing and config.acker_executors == 0:
        source, target = closing[0]
        yield (
            f"cycle {arrows(path_between(topology, target, source))}: with acker_executors=0 nothing bounds the tuples in it. "
            "Set Config(acker_executors=1), or remove the cycle."
        )
        return
    for spec in topology.spouts if closing else ():
        if spec.pending_bound(config) is not None:
            continue
        reached = came_from(topology, spec.component_id)
        fed = next(((source, target) for source, target in closing if source in reached), None)
        if fed is not None:
            yield (
                f"{spec.where}: feeds the cycle {arrows(path_between(topology, fed[1], fed[0]))} without max_spout_pending, so nothing "
                f"bounds the tuples in it. Fix set_spout({spec.component_id!r}, ..., max_spout_pending=1000) or "
                "Config(max_spout_pending=1000)."
            )


def _in_order(topology: Topology) -> list[tuple[str, str]]:
    position = {component_id: index for index, component_id in enumerate(topology.components)}
    return sorted(topology.closing_edges(), key=lambda edge: (position[edge[0]], position[edge[1]]))


def came_from(topology: Topology, start: str, end: str | None = None) -> Mapping[str, str | None]:
    """Return the components behind `start`, each with the component before it on a shortest path. Stops at `end`."""
    found: dict[str, str | None] = {start: None}
    queue = [start]
    for current in queue:
        if current == end:
            break
        for target in topology.targets(current):
            if target not in found:
                found[target] = current
                queue.append(target)
    return found


def path_between(topology: Topology, start: str, end: str) -> tuple[str, ...]:
    """Return a shortest path along the edges, with both ends. Empty if there is no path."""
    before = came_from(topology, start, end)
    if end not in before:
        return ()
    path: list[str] = []
    step: str | None = end
    while step is not None:
        path.append(step)
        step = before[step]
    return tuple(reversed(path))


def arrows(path: tuple[str, ...]) -> str:
    """Return a cycle as text: `'a' → 'b' → 'a'`."""
    return " → ".join(map(repr, (*path, path[0])))
