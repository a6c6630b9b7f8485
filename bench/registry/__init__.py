"""Registry of all works and all peers. A new work or peer is one entry in the module of its group.

A work names its own run, its figures, its peers, and the servers that it needs. A run names a function, which is called in its own process.
So this package imports neither the engine nor a peer. `python -m bench` prints the registry.
"""

from collections.abc import Mapping
from typing import Final

from bench.registry.cluster import CLUSTER
from bench.registry.compare import COMPARE
from bench.registry.exact import EXACT
from bench.registry.flow import FLOW
from bench.registry.kafka import KAFKA
from bench.registry.macro import MACRO
from bench.registry.micro import MICRO
from bench.registry.service import SERVICE
from bench.registry.spark import SPARK
from bench.registry.state import STATE
from bench.registry.streams import STREAMS
from bench.registry.transactions import TRANSACTIONS

GROUPS: Final[Mapping[str, str]] = {
    "micro": "single steps of a tuple, through their Python API",
    "macro": "whole topologies",
    "state": "costs of state: word counts on one store beside another, latency, commits, recovery, memory",
    "exact": "exactly once in plain topologies: words of a topic, latency, answers, awaited calls, recovery, failing rows",
    "streams": "windows by event time beside Bytewax, and sliding windows beside tumbling ones",
    "kafka": "a source and a sink beside other clients and engines, on one broker",
    "transactions": "batches beside single tuples, small batches, pipelining, exactly-once word counts of a topic",
    "spark": "rows handed over to Spark as Parquet, beside pyarrow alone; calls of Spark's process; latency",
    "cluster": "topologies on Spark, beside the engine on one core and PySpark by hand; costs of a batch",
    "flow": "unlike tasks beside groupings with their best windows, max_spout_pending=auto beside fixed values, the controller alone",
    "service": "requests that get the results of their own trees, in process and over HTTP",
    "compare": "the same works on peers",
}
REPORTED: Final = ("compare", "macro", "state", "exact", "streams", "kafka", "transactions", "spark", "cluster", "flow", "service")
WORKS: Final = (*MICRO, *MACRO, *STATE, *EXACT, *STREAMS, *KAFKA, *TRANSACTIONS, *SPARK, *CLUSTER, *FLOW, *SERVICE, *COMPARE)
