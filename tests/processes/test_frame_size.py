"""Frames are bounded by rows and by bytes, so that none holds the loop of the run (BP-4, PR-3)."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.runtime.processes.child_process import ChildProcess
from engine.runtime.processes.frame_link import FrameLink
from engine.runtime.processes.frame_size import FRAME_BYTES, FrameSize
from engine.testing import Capture
from tests.processes import odd_values, stateful_bolts
from tests.processes.test_instances import Play
from tests.processes.test_state import play, topology

LARGE = 20_000
MOST_BYTES = FRAME_BYTES + LARGE


def noted(frames: list[int], method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that notes the length of each frame."""

    def noting(of: Any, frame: bytes) -> None:
        frames.append(len(frame))
        method(of, frame)

    return noting


@pytest.mark.guarantee("PR-3", "BP-4")
def test_frames_of_large_inputs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    frames: list[int] = []
    monkeypatch.setattr(FrameLink, "send", noted(frames, FrameLink.send))
    play = Play(odd_values.Length, [bytes(LARGE) + b"%d" % number for number in range(500)])
    assert len(play.values) == 500
    assert FRAME_BYTES / 2 < max(frames) <= MOST_BYTES


@pytest.mark.guarantee("PR-3", "BP-4")
def test_frames_of_large_emits_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    frames: list[int] = []
    monkeypatch.setattr(ChildProcess, "_receive", noted(frames, ChildProcess._receive))
    play = Play(partial(odd_values.EmitsLarge, 100, LARGE), range(5))
    assert len(play.values) == 500
    assert FRAME_BYTES / 2 < max(frames) <= MOST_BYTES


@pytest.mark.guarantee("PR-3", "BP-4", "CP-1")
def test_frames_of_large_changes_of_a_state_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    frames: list[int] = []
    monkeypatch.setattr(ChildProcess, "_receive", noted(frames, ChildProcess._receive))
    capture = Capture()
    built = topology(partial(stateful_bolts.KeepsLarge, LARGE), f"sqlite:///{tmp_path / 'state'}", capture, count=500, by_key=False)
    snapshot = asyncio.run(play(built))
    assert snapshot.components["numbers"].acked == 500
    assert max(frames) <= MOST_BYTES


@pytest.mark.guarantee("PR-3", "BP-4", "CP-1")
def test_frames_of_a_copied_state_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    url, bolt = f"sqlite:///{tmp_path / 'state'}", partial(stateful_bolts.KeepsLarge, LARGE)
    asyncio.run(play(topology(bolt, url, Capture(), count=500, by_key=False)))
    frames: list[int] = []
    monkeypatch.setattr(FrameLink, "send", noted(frames, FrameLink.send))
    capture = Capture()
    asyncio.run(play(topology(stateful_bolts.CountsKept, url, capture, count=2, by_key=False)))
    assert capture.values == [(250, 250 * LARGE)] * 2
    assert FRAME_BYTES / 2 < max(frames) <= MOST_BYTES


@pytest.mark.guarantee("PR-3", "BP-4")
def test_a_tuple_larger_than_a_frame_goes_alone() -> None:
    play = Play(odd_values.Length, [bytes(3 * FRAME_BYTES) + b"%d" % number for number in range(20)])
    assert play.values == sorted((3 * FRAME_BYTES + len(str(number)),) for number in range(20))


@pytest.mark.guarantee("PR-3", "BP-4")
def test_the_rows_of_a_frame_follow_the_size_of_rows() -> None:
    size = FrameSize(256)
    assert size.rows == 4
    for _ in range(8):
        size.note(size.rows, size.rows * 50)
    assert size.rows == 256, "a frame of small rows is bounded by its rows"
    size.note(256, 256 * 100_000)
    assert size.rows == 2, "the next frame after larger rows is small at once"
    size.note(1, 10 * FRAME_BYTES)
    assert size.rows == 1
    for _ in range(20):
        size.note(size.rows, size.rows * 50)
    assert size.rows == 256
