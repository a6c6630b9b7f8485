"""Implements `kafka dead-letters` and `kafka replay`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from engine.cli.console.formatting import NONE, aligned, clipped, count_text, name_text, plural
from engine.cli.console.live_display import progress_counter
from engine.cli.console.output import print_to_stderr, write_line
from engine.cli.json_values import json_form
from engine.json_text import json_text
from engine.kafka.client.admin_client import AdminClient
from engine.kafka.dead_letters.dead_letter_list import DeadLetterFilter, StoredDeadLetter, find_dead_letter, newest_dead_letters
from engine.kafka.dead_letters.replay import ReplayPlan, ReplayResult, read_replay_progress, replay, replay_group

COLUMNS: Final = ("letter", "given up at", "from", "component", "reason", "error", "key", "value", "sent", "attempts")
ERROR_WIDTH: Final = 40
BYTES_WIDTH: Final = 24
INCOMPLETE: Final = 1


async def list_dead_letters(link: AdminClient, topic: str, conditions: Sequence[str], limit: int, *, as_json: bool) -> None:
    """Write a line for each of the newest dead letters."""
    found = await newest_dead_letters(link, topic, DeadLetterFilter.parse(conditions), limit)
    sent = await read_replay_progress(link, topic, replay_group(topic))
    replayed = [sent[stored.at].is_sent_before(stored.offset) for stored in found.letters]
    if as_json:
        for stored, is_sent in zip(found.letters, replayed, strict=True):
            write_line(json_text(dead_letter_fields(stored) | {"sent": is_sent}))
    elif found.letters:
        rows = [_row(stored, is_sent=is_sent) for stored, is_sent in zip(found.letters, replayed, strict=True)]
        write_line(aligned([COLUMNS, *rows], text_columns=len(COLUMNS) - 1))
    else:
        write_line(f"topic {topic!r} contains no " + ("matching dead letter" if conditions else "dead letter"))
    if found.others:
        print_to_stderr(f"Note: {plural(found.others, 'record')} in the topic cannot be read as a dead letter")


async def show_dead_letter(link: AdminClient, topic: str, name: str, *, as_json: bool) -> None:
    """Write one complete dead letter."""
    stored = await find_dead_letter(link, topic, name)
    if as_json:
        write_line(json_text(dead_letter_fields(stored)))
        return
    letter, failure = stored.letter, stored.letter.failure
    lines = [
        ("letter", f"{stored.name} in topic {topic!r}"),
        ("given up at", f"{_clock(letter.failed_at_ms)} by topology {letter.topology!r}, after {count_text(letter.attempts)} attempts"),
        ("reason", name_text(failure.describe().partition("\n")[0])),
        ("from", _origin(stored) + (f", of {_clock(letter.timestamp_ms)}" if letter.timestamp_ms is not None else "")),
        *((f"header {name_text(header)}", bytes_text(value)) for header, value in letter.headers),
        ("key", bytes_text(letter.key)),
        ("value", _size(letter.value, letter.cut_from_bytes)),
    ]
    width = max(len(label) for label, _ in lines)
    write_line("\n".join(f"{label.ljust(width)}  {text}" for label, text in lines))
    for line in _text(letter.value).split("\n") if letter.value is not None else ():
        write_line(f"  {name_text(line)}")


def dead_letter_fields(stored: StoredDeadLetter) -> dict[str, Any]:
    """Return a dead letter as plain values. Bytes are text if they are UTF-8, else they have the form of docs/STATE.md."""
    letter = stored.letter
    return {
        "letter": stored.name,
        "failed_at_ms": letter.failed_at_ms,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp_ms": letter.timestamp_ms,
        "topology": letter.topology,
        "component": letter.failure.component_id,
        "task": letter.failure.task_id,
        "reason": letter.failure.reason,
        "error": letter.failure.error,
        "attempts": letter.attempts,
        "cut_from_bytes": letter.cut_from_bytes,
        "key": _bytes_form(letter.key),
        "value": _bytes_form(letter.value),
        "headers": [[name, _bytes_form(value)] for name, value in letter.headers],
    }


def bytes_text(value: bytes | None, width: int | None = None) -> str:
    """Return bytes for a terminal, in at most `width` characters. UTF-8 is shown as escaped text.

    >>> print(bytes_text(b"to be"), bytes_text(b"or\\x1b[2J"), bytes_text(bytes([255])), bytes_text(None))
    to be 'or\\x1b[2J' b'\\xff' –
    """
    if value is None:
        return NONE
    head = value if width is None else value[: 4 * width]
    try:
        text = name_text(head.decode())
    except UnicodeDecodeError as error:
        is_cut = head != value and error.start >= len(head) - 3  # the cut may split the last character
        text = name_text(head[: error.start].decode()) if is_cut else repr(head)
    return text if width is None else clipped(text, width)


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return repr(value)


def _bytes_form(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return json_form(value)


def _size(value: bytes | None, cut_from_bytes: int | None) -> str:
    size = NONE if value is None else f"{count_text(len(value))} bytes"
    return size if cut_from_bytes is None else f"{size}, truncated; key, value and headers had {count_text(cut_from_bytes)} bytes"


def _row(stored: StoredDeadLetter, *, is_sent: bool) -> tuple[str, ...]:
    letter, failure = stored.letter, stored.letter.failure
    error = (failure.error or NONE).partition("\n")[0]
    return (
        stored.name,
        _clock(letter.failed_at_ms),
        _origin(stored),
        NONE if failure.component_id is None else name_text(failure.component_id),
        failure.reason,
        name_text(clipped(error, ERROR_WIDTH)),
        bytes_text(letter.key, BYTES_WIDTH),
        bytes_text(letter.value, BYTES_WIDTH),
        "yes" if is_sent else "no",
        count_text(letter.attempts),
    )


def _origin(stored: StoredDeadLetter) -> str:
    letter = stored.letter
    place = "" if letter.partition is None else f"-{letter.partition}" + ("" if letter.offset is None else f"@{letter.offset}")
    return f"{name_text(letter.topic)}{place}"


def _clock(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000).isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)


async def replay_dead_letters(link: AdminClient, topic: str, conditions: Sequence[str], **options: Any) -> int:
    """Send dead letters back and write the result. Return the exit status."""
    as_json = options.pop("as_json")
    group = options.pop("group") or replay_group(topic)
    plan = ReplayPlan(topic=topic, choice=DeadLetterFilter.parse(conditions), group=group, **options)
    with progress_counter("sent", "letters") as advance:
        result = await replay(link, plan, advance, lambda error: print_to_stderr(str(error)))
    write_line(json_text(_result_fields(plan, result)) if as_json else result_text(plan, result))
    return INCOMPLETE if result.left else 0


def _result_fields(plan: ReplayPlan, result: ReplayResult) -> dict[str, Any]:
    return {
        "topic": plan.topic,
        "group": plan.group,
        "dry_run": plan.is_dry,
        "sent": dict(result.sent),
        "sent_before": result.sent_before,
        "not_chosen": result.not_chosen,
        "others": result.others,
        "left": dict(result.left),
    }


def result_text(plan: ReplayPlan, result: ReplayResult) -> str:
    """Return the result of a replay, or of a dry run, as text."""
    total = result.sent.total()
    lines = [f"{'to send' if plan.is_dry else 'sent'}: {count_text(total)}"]
    lines += [f"  {count_text(number)} to {name_text(topic)}" for topic, number in sorted(result.sent.items())]
    if result.sent_before:
        lines.append(f"sent before: {count_text(result.sent_before)}")
    if result.not_chosen:
        lines.append(f"not chosen: {count_text(result.not_chosen)}")
    if result.others:
        lines.append(f"not a dead letter: {count_text(result.others)}")
    if result.left:
        lines.append(f"cannot be sent: {count_text(result.left.total())}")
        lines += [f"  {count_text(number)}: {name_text(reason)}" for reason, number in sorted(result.left.items())]
    return "\n".join(lines)
