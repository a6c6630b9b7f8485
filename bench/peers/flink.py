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
    class_path = build_java(SOURCES / "pom.xml", SOURCES / "FlinkPeer.java")
    scratch = scratch_folder("FlinkPeer")
    text, checkpoints = scratch / "text.txt", scratch / "checkpoints"
    text.write_text("\n".join(standard_library_lines()), encoding="utf-8")
    options = [f"--add-opens={package}" for package in OPENED_PACKAGES]
    arguments = (text, checkpoints, round(CHECKPOINT_SECS * 1000), warm_secs, measured_secs)
    become_jvm(scratch, class_path, "FlinkPeer", *arguments, options=options)
