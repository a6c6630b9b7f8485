"""Compressed batches on a real broker: the codecs come with the extra `kafka`, and one without its library names it."""

import tomllib
from typing import Final, Literal

import pytest

from engine.errors import ComponentError
from engine.installation import install_command
from tests.kafka.play import all_of, settings
from tests.kafka.sink_play import fed, sink_config, write
from tests.kafka.transactional.committer_task import committer_config, committing, seen
from tests.project.sources import ROOT
from tests.servers.kafka_admin import fresh_name
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("KS-10")
Codec = Literal["gzip", "snappy", "lz4", "zstd"]
CODECS: Final[tuple[Codec, ...]] = ("gzip", "snappy", "lz4", "zstd")
LARGE: Final = [f"{number}" * 1000 for number in range(10)]


@pytest.mark.parametrize("codec", CODECS)
async def test_a_spout_reads_compressed_records_of_a_sink(
    kafka: str, new_topic: NewTopic, codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await new_topic(partitions=1)
    feeder = fed(LARGE)
    await write(sink_config(kafka, topic, compression=codec), feeder)
    assert len(feeder.acked) == len(LARGE)
    assert await all_of(settings(kafka, topic, translator=lambda record: (record.value.decode(),))) == LARGE
    if codec != "gzip":
        monkeypatch.setattr("aiokafka.codec.cramjam", None)
        with pytest.raises(ComponentError, match=f"UnsupportedCodecError.*{codec}"):  # so it was compressed
            await all_of(settings(kafka, topic))


@pytest.mark.guarantee("TX-10")
@pytest.mark.parametrize("codec", CODECS)
async def test_compressed_records_of_a_committer_are_read(kafka: str, new_topic: NewTopic, codec: Codec) -> None:
    topic = await new_topic(partitions=1)
    async with committing(committer_config(kafka, topic, compression=codec), name=fresh_name("words")) as task:
        await task.commit(1, *LARGE)
    assert await seen(kafka, topic) == LARGE


@pytest.mark.parametrize("codec", CODECS[1:])
async def test_a_sink_names_the_missing_library_of_its_codec(kafka: str, codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiokafka.codec.cramjam", None)
    with pytest.raises(ComponentError, match=f"Compression library for {codec} not found") as raised:
        await write(sink_config(kafka, "any", compression=codec), fed(["a"]))
    assert f"{install_command('kafka')}, or only cramjam" in str(raised.value)


def test_the_extra_installs_the_codecs() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    [client] = extras["kafka"]
    assert client.startswith("aiokafka[lz4,snappy,zstd]")
