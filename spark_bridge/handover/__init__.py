"""The folder between the engine and Spark: its layout, as both sides know it (SP-2, SP-3). Needs pyarrow alone."""

from spark_bridge.handover.errors import HandoverError

__all__ = ["HandoverError"]
