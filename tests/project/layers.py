"""The layers of the project, the third parties of each package, and the agreed exceptions: the one table of them."""

# Each unit may import the units of the layers above it in this list, and itself; never another one of its own layer.
# A unit is a module, or a package with all that is in it; `engine` is the root module alone.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("engine.safe_text",),
    (
        "engine.installation",
        "engine.json_text",
        "engine.program_exit",
        "engine.stream_replacement",
        "engine.user_files",
        "spark_bridge.installation",
    ),
    (
        "_native",
        "engine.backoff",
        "engine.undone",
        "engine.lazy_names",
        "engine.log",
        "engine.names",
        "engine.errors",
        "engine.forks",
        "engine.clock",
        "engine.randomness",
        "engine.plain_numbers",
        "engine.version",
        "spark_bridge.handover",
        "spark_bridge.process_identity",
        "spark_bridge.task_try",
    ),
    (
        "engine.cancellation",
        "engine.config",
        "engine.event_time",
        "engine.metrics",
        "engine.outward",
        "engine.home_loop",
        "engine.coroutine_steps",
        "engine.in_thread",
        "engine.kernel",
        "engine.maybe_await",
        "engine.raised",
        "engine.svg",
        "engine.waiters",
        "engine.waits",
    ),
    ("engine.api",),
    ("engine.topology", "engine.state"),
    ("engine.control",),
    ("engine.dead_letters", "engine.runtime", "engine.files"),
    ("engine.checkpoint", "engine.transactional", "engine.flow"),
    ("engine.kafka", "engine.features", "engine.streams"),
    ("engine", "engine.testing"),
    ("engine.web",),
    ("engine.cli", "engine.__main__", "spark_bridge.writer", "spark_bridge.source", "spark_bridge.sinks", "spark_bridge.process"),
    ("spark_bridge.transform", "spark_bridge.pipeline", "spark_bridge.topology"),
    ("spark_bridge.cli",),
    ("spark_bridge", "spark_bridge.__main__"),
)

# (importing unit, imported unit): why it is right although the layers forbid it.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("engine.__main__", "engine.cli"): "`python -m engine` is the command line, under the name that Python looks for",
}

# The only packages that may import it; what is in no table is no dependency.
THIRD_PARTIES: dict[str, tuple[str, ...]] = {
    "Cython": ("_native",),
    "cython": ("_native",),
    "libc": ("_native",),
    "cpython": ("_native",),
    "click": ("engine.cli", "spark_bridge.cli"),
    "rich": ("engine.cli", "spark_bridge.cli"),
    "uvloop": ("engine.cli",),
    "aiokafka": ("engine.kafka",),
    "msgpack": ("engine.state",),
    "redis": ("engine.state.redis",),
    "starlette": ("engine.web",),
    "uvicorn": ("engine.web",),
    "asyncpg": ("engine.state.postgres",),
    "kazoo": ("engine.state.zookeeper",),
    "cloudpickle": ("engine.streams",),
    "pyarrow": ("spark_bridge",),
    "fsspec": ("spark_bridge.handover",),
    "pyspark": ("spark_bridge.source", "spark_bridge.sinks", "spark_bridge.process", "spark_bridge.pipeline", "spark_bridge.topology"),
    "py4j": ("spark_bridge.process",),
}

# These run where there is no engine: on drivers and executors of a cluster.
WITHOUT_ENGINE = (
    "spark_bridge.installation",
    "spark_bridge.handover",
    "spark_bridge.process_identity",
    "spark_bridge.source",
    "spark_bridge.sinks",
)

# Only these may import `_native`.
KERNEL = "engine.kernel"

# Modules that decide: plain synchronous objects that are given the time and the randomness.
DECIDING = (
    "engine.backoff",
    "engine.event_time.holder",
    "engine.event_time.source_clock",
    "engine.event_time.watermark",
    "engine.topology.validate",
    "engine.runtime.plan",
    "engine.runtime.bottleneck",
    "engine.runtime.restart_policy",
    "engine.checkpoint.machine",
    "engine.checkpoint.alignment",
    "engine.transactional.machine",
    "engine.transactional.open_batches",
    "engine.transactional.values.fence",
    "engine.flow.controller",
    "engine.web.access",
    "engine.web.sample",
    "engine.web.sample_metrics",
    "engine.web.topology_layout",
    "engine.runtime.spout_window",
    "engine.kafka.source.acked_set",
    "engine.kafka.source.offset_manager",
    "engine.kafka.source.partitions",
    "engine.kafka.source.retry",
    "engine.kafka.source.undecodable",
    "engine.kafka.transactional.stored_txids",
    "spark_bridge.writer.retention",
    "spark_bridge.pipeline.restarts",
    "spark_bridge.topology.job_plan",
)


def unit_of(module: str) -> str | None:
    """The unit of the table that a module belongs to: the longest name that contains it."""
    if module == "engine":
        return module
    units = [unit for layer in LAYERS for unit in layer if unit != "engine"]
    return max((unit for unit in units if module == unit or module.startswith(unit + ".")), key=len, default=None)


def layer_of(unit: str) -> int:
    """The number of a unit's layer."""
    return next(number for number, layer in enumerate(LAYERS) if unit in layer)
