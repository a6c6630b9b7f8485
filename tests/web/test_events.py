"""Server-sent events over real connections: slow, hung and many readers, and the end (WEB-3, WEB-4)."""

import asyncio
from typing import Any

import pytest

import engine
from engine import ComponentError
from engine.testing import run_virtual
from engine.web import sampler as sampler_module
from engine.web import serve
from engine.web.encoding import encode_json
from engine.web.read_budget import ReadBudget
from engine.web.sampler import INTERVAL_SECS, MOST_INTERVAL_SECS, MOST_READERS, Sampler
from tests.patience import PATIENCE_SECS
from tests.web.runs import ask, ending_topology, next_event, open_events, parsed_event, served, topology

pytestmark = pytest.mark.timeout(PATIENCE_SECS)


async def rest(reader: asyncio.StreamReader) -> list[tuple[str, Any]]:
    """Return all events until the server closes the connection."""
    *events, tail = (await reader.read()).split(b"\n\n")
    assert tail == b""
    return [parsed_event(event) for event in events]


async def test_a_reader_gets_history_samples_and_the_end() -> None:
    async with served() as (run, serving):
        reader, writer = await open_events(serving)
        name, history = await next_event(reader)
        assert (name, isinstance(history["samples"], list)) == ("history", True)
        name, sample = await next_event(reader)
        assert (name, sample["topology"], sample["log_level"] != "") == ("sample", "squares", True)
        await run.drain()
        events = await rest(reader)
        assert [name for name, _ in events[-1:]] == ["end"]
        assert events[-1][1]["state"] == "drained"
        writer.close()


@pytest.mark.guarantee("WEB-4")
async def test_a_run_that_ends_by_itself_tells_its_readers() -> None:
    run = engine.run(ending_topology())
    async with serve(run, "0") as serving:
        reader, writer = await open_events(serving)
        async with run:
            await run.completed()
        assert (await rest(reader))[-1][1]["state"] == "complete"
        late, late_writer = await open_events(serving)
        assert [name for name, _ in await rest(late)] == ["history", "end"]
        writer.close()
        late_writer.close()


@pytest.mark.guarantee("WEB-4")
async def test_a_run_that_cannot_start_is_shown_as_failed() -> None:
    class NeverReady(engine.BasicBolt):
        def prepare(self) -> None:
            raise engine.FatalError("no database")

        def execute(self, tup: Any) -> None:
            """Never called."""

    builder = engine.TopologyBuilder("broken")
    builder.set_spout("in", lambda: engine.Inlet("number"))
    builder.set_bolt("last", NeverReady).shuffle_grouping("in")
    run = engine.run(builder.build())
    reading: list[asyncio.Task[list[tuple[str, Any]]]] = []
    writers: list[asyncio.StreamWriter] = []

    async def begin() -> None:
        async with serve(run, "0") as serving:
            reader, writer = await open_events(serving)
            writers.append(writer)
            reading.append(asyncio.create_task(rest(reader)))
            async with run:
                pass

    with pytest.raises(ComponentError):
        await begin()
    assert (await reading[0])[-1][1]["state"] == "failed"
    writers[0].close()


@pytest.mark.guarantee("WEB-3", "WEB-4")
async def test_hung_readers_never_keep_the_run_from_ending() -> None:
    loop = asyncio.get_running_loop()
    async with served() as (run, serving):
        readers = [await open_events(serving) for _ in range(10)]
        for _, writer in readers:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
        began = loop.time()
    assert loop.time() - began < 2
    assert run.state == "stopped"
    for _, writer in readers:
        writer.close()


@pytest.mark.guarantee("WEB-3")
async def test_too_many_readers_are_refused() -> None:
    async with served() as (_, serving):
        readers = [await open_events(serving) for _ in range(MOST_READERS)]
        answer = await ask(serving, b"GET /api/events HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"Close other pages" in answer
        assert (await ask(serving, b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")).startswith(b"HTTP/1.1 200")
        _, writer = readers.pop()
        writer.close()
        await writer.wait_closed()
        while (answer := await ask(serving, b"HEAD /api/events HTTP/1.0\r\nHost: localhost\r\n\r\n")) and b" 200" not in answer:
            pass
        for _, writer in readers:
            writer.close()


@pytest.mark.guarantee("WEB-3")
async def test_a_reader_that_comes_back_gets_the_history() -> None:
    async with served() as (_, serving):
        reader, writer = await open_events(serving)
        await next_event(reader)
        await next_event(reader)
        writer.close()
        reader, writer = await open_events(serving)
        name, history = await next_event(reader)
        assert name == "history"
        assert {"time", "emitted_rate", "acked_rate", "failed_rate", "loop_busy", "open_trees", "p50_ms", "p99_ms"} == history["samples"][
            0
        ].keys()
        writer.close()


async def test_a_head_request_gets_no_events() -> None:
    async with served() as (_, serving):
        answer = await ask(serving, b"HEAD /api/events HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"\r\n\r\n")


async def test_two_runs_of_one_loop_have_a_page_each() -> None:
    async with served(topology("one")) as (_, one), served(topology("two")) as (_, two):
        for serving, name in ((one, "one"), (two, "two")):
            reader, writer = await open_events(serving)
            await next_event(reader)
            assert (await next_event(reader))[1]["topology"] == name
            writer.close()


@pytest.mark.guarantee("WEB-3")
async def test_a_snapshot_that_fails_is_logged_once_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no sample today")

    monkeypatch.setattr("engine.web.sampler.make_sample", broken)
    async with served() as (run, serving):
        reader, writer = await open_events(serving)
        await next_event(reader)
        await run.drain()
        assert (await rest(reader))[-1] == ("end", None)
        writer.close()
    assert caplog.text.count("could not be sampled") == 1


@pytest.mark.guarantee("WEB-3")
def test_the_interval_grows_with_the_work_but_not_with_one_slow_snapshot() -> None:
    works = (2.0, 0.001, 0.03, 0.05, 0.04, 5.0, 5.0)

    async def main() -> list[float]:
        sampler, intervals = Sampler(engine.run(topology()), lambda: "INFO", ReadBudget()), []
        for secs in works:
            await asyncio.sleep(MOST_INTERVAL_SECS)
            sampler.snapshot()
            sampler.note_work(secs)
            intervals.append(sampler.interval_secs())
        return intervals

    assert run_virtual(main) == pytest.approx([*[INTERVAL_SECS] * 3, 3.0, 4.0, 4.0, MOST_INTERVAL_SECS])


@pytest.mark.guarantee("WEB-3")
async def test_ten_readers_share_each_snapshot_and_its_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []

    def counted(value: Any) -> bytes:
        if "seq" in value:
            encoded.append(value["seq"])
        return encode_json(value)

    monkeypatch.setattr(sampler_module, "encode_json", counted)
    async with served() as (run, serving):
        taken, snapshot = [0], run.snapshot
        monkeypatch.setattr(run, "snapshot", lambda: (taken.__setitem__(0, taken[0] + 1), snapshot())[1])
        readers = [await open_events(serving) for _ in range(10)]
        seen: list[dict[int, Any]] = [{} for _ in readers]
        for number, (reader, _) in enumerate(readers):
            while len(seen[number]) < 2:
                name, sample = await next_event(reader)
                if name == "sample":
                    seen[number][sample["seq"]] = sample
        seqs = {seq for samples in seen for seq in samples}
        assert len(encoded) == len(set(encoded))  # each sample was encoded once
        assert seqs <= set(encoded)
        assert taken[0] <= max(encoded)  # and has one snapshot
        for seq in seqs:
            same = [samples[seq] for samples in seen if seq in samples]
            assert all(sample == same[0] for sample in same)
        for _, writer in readers:
            writer.close()
