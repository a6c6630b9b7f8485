"""`python -m tests.spark_bridge.topology.model SEED`: replay one simulated topology on Spark, and print its plan and its violations."""

from tests.spark_bridge.topology.model.simulate import simulate
from tests.transactional.model.__main__ import main

if __name__ == "__main__":
    raise SystemExit(main("tests.spark_bridge.topology.model", simulate))
