"""The default translator and its fields (KS-8)."""

from types import SimpleNamespace

import pytest

from engine.kafka import ToStream
from engine.kafka.source.translate import RECORD_FIELDS, whole_record


@pytest.mark.guarantee("KS-8")
@pytest.mark.parametrize(("key", "value"), [(b"k", b"v"), (None, None), (b"", b"")])
def test_the_default_translator_gives_the_whole_record_in_the_order_of_its_fields(key: bytes | None, value: bytes | None) -> None:
    record = SimpleNamespace(topic="lines", partition=3, offset=7, timestamp=1, key=key, value=value, headers=())
    values = whole_record(record)
    assert values == tuple(getattr(record, name) for name in RECORD_FIELDS)
    assert values == ("lines", 3, 7, key, value)
    assert ToStream("late", values) == ("late", values)
