"""Fixtures: a hand-over with one consumer, and readers of it as Spark creates them."""

from pathlib import Path

import pytest

from spark_bridge.source.options import SourceOptions
from spark_bridge.source.stream_reader import HandoverStreamReader
from tests.spark_bridge.source.makes_reader import MakesReader
from tests.spark_bridge.writing import Writer


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path / "handover", consumers=["c"])


@pytest.fixture
def reader(writer: Writer) -> MakesReader:
    def make(**options: str) -> HandoverStreamReader:
        return HandoverStreamReader(SourceOptions.parse({"path": writer.folder, "consumer": "c", **options}))

    return make
