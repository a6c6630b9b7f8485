"""Apache Flink in one JVM, from `flink/FlinkPeer.java`. The JVM replaces this process."""

from pathlib import Path

from bench.builds import become_jvm, build_java, scratch_folder
from bench.texts import standard_library_lines

SOURCES = Path(__file__).with_name("flink")
CHECKPOINT_SECS = 1.0
"""The engine's default interval, too."""
OPENED_PACKAGES = ("java.base/java.lang=ALL-UNNAMED", "java.base/java.util=ALL-UNNAMED")
"""Flink's serialisers read private fields of these packages."""


def count_words(warm_secs: int, measured_secs: int) -> None:
    """Count the words of the text that the engine counts."""
    scratch = scratch_folder("FlinkPeer")
    text = scratch / "text.txt"
    text.write_text("\n".join(standard_library_lines()), encoding="utf-8")
    _become_flink(scratch, "words", warm_secs, measured_secs, text)


def count_in_windows(keys: int, rows_per_second: int, window_secs: int, warm_secs: int, measured_secs: int) -> None:
    """Count the rows of `bench.streams.hits` in tumbling windows of event time."""
    _become_flink(scratch_folder("FlinkPeer"), "windows", warm_secs, measured_secs, keys, rows_per_second, window_secs)


def _become_flink(scratch: Path, work: str, warm_secs: int, measured_secs: int, *arguments: object) -> None:
    """Replace this process by a JVM that does a work."""
    class_path = build_java(SOURCES / "pom.xml", SOURCES / "FlinkPeer.java")
    options = [f"--add-opens={package}" for package in OPENED_PACKAGES]
    checkpoints, millis = scratch / "checkpoints", round(CHECKPOINT_SECS * 1000)
    become_jvm(scratch, class_path, "FlinkPeer", work, checkpoints, millis, warm_secs, measured_secs, *arguments, options=options)
