"""`kafka` shows consumer groups and dead letters, resets groups, and replays dead letters. Also defines the connection options."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from engine.cli.console.commands import CommandGroup, Duration
from engine.cli.console.output import show_error
from engine.cli.console.user_file import why_unreadable
from engine.errors import ConfigError, EngineError, UsageError
from engine.installation import install_command

if TYPE_CHECKING:
    from engine.kafka.client.admin_client import AdminClient, ClusterConfig

PASSWORD_VARIABLE: Final = "KAFKA_PASSWORD"
WRONG: Final = 2
SECURITY_HELP: Final = """\
\b
FILE.toml contains the parameters of KafkaSecurity:
  protocol = "SASL_SSL"
  mechanism = "SCRAM-SHA-512"
  username = "ann"
  cafile = "ca.pem"
Without a password there, the command reads KAFKA_PASSWORD, or asks on a terminal.
"""
_TEXTS: Final = ("protocol", "mechanism", "username", "password", "cafile", "certfile", "keyfile", "key_password")
_NAMES: Final = (*_TEXTS, "check_hostname")
_F = TypeVar("_F")


def cluster_options(function: _F) -> _F:
    """Add `--brokers` and `--security`."""
    return optional_cluster_options(function, required=True)


def optional_cluster_options(function: _F, *, required: bool = False) -> _F:
    """Add `--brokers` and `--security` to a command that may do without Kafka."""
    brokers = click.option(
        "--brokers",
        metavar="HOST:PORT",
        envvar="KAFKA_BROKERS",
        required=required,
        help="Bootstrap servers, such as a:9092,b:9092. Default: KAFKA_BROKERS.",
    )
    security = click.option(
        "--security",
        metavar="FILE.toml",
        envvar="KAFKA_SECURITY",
        type=click.Path(path_type=Path),
        help="TLS and SASL settings, see below. Default: KAFKA_SECURITY.",
    )
    return brokers(security(function))  # type: ignore[type-var]


def json_option(text: str) -> Callable[[_F], _F]:
    """Add `--json` as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help=text)  # type: ignore[return-value]


def run_on_cluster(brokers: str, security: Path | None, work: Callable[["AdminClient"], Coroutine[Any, Any, int | None]]) -> int:
    """Connect to the cluster and do the work. Print errors, and return the exit status."""
    try:
        config = cluster_config(brokers, security)
        with silent_client():
            return asyncio.run(_connected(config, work)) or 0
    except EngineError as error:
        show_error(error)
        return WRONG


@contextmanager
def silent_client() -> Iterator[None]:
    """Silence the log of aiokafka, because the command itself reports each error once."""
    logger = logging.getLogger("aiokafka")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


async def _connected(config: "ClusterConfig", work: Callable[["AdminClient"], Coroutine[Any, Any, int | None]]) -> int | None:
    from engine.kafka.client.admin_client import connected

    async with connected(config) as link:
        return await work(link)


def cluster_config(brokers: str, security: Path | None) -> "ClusterConfig":
    """Return the config of the options. Raise UsageError or ConfigError for wrong ones, and without aiokafka."""
    try:
        from engine.kafka import KafkaSecurity
        from engine.kafka.client.admin_client import ClusterConfig
    except ModuleNotFoundError as error:
        if error.name != "aiokafka":
            raise
        hint = f"Run: {install_command('kafka')}"
        raise UsageError("the kafka commands need aiokafka, which is not installed", hint=hint) from error
    if security is None:
        return ClusterConfig(brokers=brokers)
    values = dict(_table(security))
    if str(values.get("protocol", "")).startswith("SASL") and "username" in values and "password" not in values:
        values["password"] = _password(str(values["username"]))
    folder = security.parent
    for name in ("cafile", "certfile", "keyfile"):
        if isinstance(path := values.get(name), str):
            values[name] = str(folder / path)  # relative paths are relative to the folder of this file
    return ClusterConfig(brokers=brokers, security=KafkaSecurity(**values))


def _table(path: Path) -> Mapping[str, Any]:
    """Return the settings of the file, from its top level or its table [kafka]."""
    import tomllib

    trouble = why_unreadable(path, ".toml")
    if trouble is not None:
        raise UsageError(f"--security: {trouble[0]}", hint=trouble[1])
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"--security: {path} cannot be read: {error}", hint="Write valid TOML in UTF-8.") from error
    table = document.get("kafka", document)
    if not isinstance(table, dict):
        raise UsageError(f"--security: in {path}, kafka is not a table", hint="Write [kafka] with the settings under it.")
    faults = [f"{name} is not a setting. The settings are {', '.join(_NAMES)}." for name in table if name not in _NAMES]
    faults += [f"{name} must be text. Write it in quotes." for name in table if name in _TEXTS and not isinstance(table[name], str)]
    if faults:
        raise ConfigError(faults, headline=f"--security {path}")
    return table


def _password(username: str) -> str:
    given = os.environ.get(PASSWORD_VARIABLE)
    if given is not None:
        return given
    if not sys.stdin.isatty():
        hint = f"Set {PASSWORD_VARIABLE}, or add password=... to the file of --security."
        raise UsageError(f"the password of {username!r} is missing, and there is no terminal to ask on", hint=hint)
    found: str = click.prompt(f"Password of {username}", hide_input=True, err=True)
    return found


_group_option = click.option("--group", required=True, metavar="NAME", help="The consumer group of the KafkaSpoutConfig.")
_topics_option = click.option("--topic", "topics", metavar="NAME", multiple=True, help="Only this topic. May be repeated.")
_dead_letter_topic_option = click.option("--topic", required=True, metavar="NAME", help="The dead-letter topic.")
_only_option = click.option(
    "--only",
    "conditions",
    metavar="NAME=TEXT",
    multiple=True,
    help="Filter: topic, topology, component, reason or letter is TEXT, or error contains TEXT. May be repeated.",
)


@click.group("kafka", cls=CommandGroup, short_help="Show lag, offsets and dead letters of Kafka.")
def command() -> None:
    """Show consumer groups and dead letters of a Kafka cluster, reset groups, and replay dead letters.

    \b
      kafka lag --brokers localhost:9092 --group words
      kafka offsets --brokers localhost:9092 --group words
      kafka reset --brokers localhost:9092 --group words --topic lines --to earliest
      kafka dead-letters --brokers localhost:9092 --topic lines.dead
      kafka replay --brokers localhost:9092 --topic lines.dead

    Environment variables replace options: KAFKA_BROKERS for --brokers, KAFKA_SECURITY for --security. Only reset and replay write to the
    cluster. The other commands do not join the group.

    Exit status 0 means success. Status 1 means that you declined a reset, or that chosen letters cannot be sent. Status 2 means that
    the cluster, a group or a topic cannot be read.
    """


@command.command("lag", short_help="Show the lag of a group and its members.", epilog=SECURITY_HELP)
@cluster_options
@_group_option
@_topics_option
@click.option("--watch", "watch_secs", metavar="DURATION", type=Duration(), help="Repeat with this period, such as 2s, until Ctrl-C.")
@json_option("Write one JSON object per measurement, for programs.")
def lag_command(
    brokers: str, security: Path | None, group: str, topics: tuple[str, ...], watch_secs: float | None, *, as_json: bool
) -> int:
    """Show the committed offset, the end offset and the lag of each partition of GROUP.

    \b
      kafka lag --brokers localhost:9092 --group words
      kafka lag --brokers localhost:9092 --group words --topic lines --watch 2s
      kafka lag --brokers localhost:9092 --group words --json | jq .lag

    The column acked is the part of the lag that the topology has processed already, above the committed offset. The next run of the
    topology skips these records. The columns client, member and host name the reader of the partition while the group is active. The column
    topology names the topology that committed.
    """

    async def work(link: "AdminClient") -> None:
        from engine.cli.kafka_groups import show_lag

        await show_lag(link, group, topics, watch_secs, as_json=as_json)

    try:
        return run_on_cluster(brokers, security, work)
    except KeyboardInterrupt:
        if watch_secs is None:
            raise
        return 0  # --watch ends with Ctrl-C only


@command.command("offsets", short_help="Show the commits of a group and their metadata.", epilog=SECURITY_HELP)
@cluster_options
@_group_option
@_topics_option
@json_option("Write one JSON object, for programs.")
def offsets_command(brokers: str, security: Path | None, group: str, topics: tuple[str, ...], *, as_json: bool) -> int:
    """Show the commits of GROUP, the bounds of the partitions, and the decoded metadata.

    \b
      kafka offsets --brokers localhost:9092 --group words
      kafka offsets --brokers localhost:9092 --group words --topic lines --json | jq .partitions

    The commit of a topology contains its name and the acked offsets above the commit. The column acked is the number of these offsets,
    and runs is the number of their ranges. Metadata of other programs are marked. A commit beyond the end (the topic was recreated) or
    below the beginning (retention deleted records) is reported.
    """

    async def work(link: "AdminClient") -> None:
        from engine.cli.kafka_groups import show_offsets

        await show_offsets(link, group, topics, as_json=as_json)

    return run_on_cluster(brokers, security, work)


@command.command("reset", short_help="Set the committed offsets of a group.", epilog=SECURITY_HELP)
@cluster_options
@_group_option
@click.option("--topic", required=True, metavar="NAME", help="The topic whose offsets are set.")
@click.option(
    "--partition", "partitions", type=click.IntRange(min=0), metavar="N", multiple=True, help="Only this partition. May be repeated."
)
@click.option("--to", "target", required=True, metavar="WHERE", help="earliest, latest, an offset, or a time such as 2026-01-31T12:00Z.")
@click.option("--yes", "is_sure", is_flag=True, help="Commit without asking.")
def reset_command(brokers: str, security: Path | None, group: str, **chosen: Any) -> int:
    """Set the committed offsets of GROUP, so that its next run continues from there. Shows the offsets and asks first.

    \b
      kafka reset --brokers localhost:9092 --group words --topic lines --to earliest
      kafka reset --brokers localhost:9092 --group words --topic lines --partition 2 --to 1042 --yes
      kafka reset --brokers localhost:9092 --group words --topic lines --to 2026-01-31T12:00+01:00

    GROUP must have no active member. A time without a UTC offset is local. A time means the first record of that time or later. The
    acked offsets above the commit are dropped, so records above the new offset are processed again.
    """

    async def work(link: "AdminClient") -> int:
        from engine.cli.kafka_groups import reset_offsets

        return await reset_offsets(link, group, **chosen)

    return run_on_cluster(brokers, security, work)


@command.command("dead-letters", short_help="List the dead letters and their reasons.", epilog=SECURITY_HELP)
@cluster_options
@_dead_letter_topic_option
@_only_option
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="List the newest N.")
@click.option("--show", "shown", metavar="LETTER", help="Show one letter completely, by its name in the list: 0@17.")
@json_option("Write one complete JSON object for each letter, for programs.")
def dead_letters_command(brokers: str, security: Path | None, topic: str, conditions: tuple[str, ...], **options: Any) -> int:
    """List the dead letters in TOPIC, newest last, with their time, origin, reason and number of attempts.

    \b
      kafka dead-letters --brokers localhost:9092 --topic lines.dead
      kafka dead-letters --brokers localhost:9092 --topic lines.dead --only reason=timeout --only component=parse
      kafka dead-letters --brokers localhost:9092 --topic lines.dead --show 0@17
      kafka dead-letters --brokers localhost:9092 --topic lines.dead --json | jq -r .error | sort | uniq -c

    The column letter is the name of a dead letter, partition@offset in TOPIC. The column sent tells whether replay, with its default group,
    has sent the letter back.
    """

    async def work(link: "AdminClient") -> None:
        from engine.cli.kafka_dead_letters import list_dead_letters, show_dead_letter

        if options["shown"] is not None:
            await show_dead_letter(link, topic, options["shown"], as_json=options["as_json"])
        else:
            await list_dead_letters(link, topic, conditions, options["limit"], as_json=options["as_json"])

    return run_on_cluster(brokers, security, work)


@command.command("replay", short_help="Send dead letters back to their topics.", epilog=SECURITY_HELP)
@cluster_options
@_dead_letter_topic_option
@_only_option
@click.option("--to", metavar="TOPIC", help="Send all to this topic instead of their own ones.")
@click.option("--group", metavar="NAME", help="Consumer group that records which letters are sent. Default: TOPIC.replay.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Send at most N letters.")
@click.option("--dry-run", "is_dry", is_flag=True, help="Only show what would be sent.")
@json_option("Write the result as one JSON object, for programs.")
def replay_command(brokers: str, security: Path | None, topic: str, conditions: tuple[str, ...], **options: Any) -> int:
    """Send the dead letters in TOPIC back to their topics and partitions, with unchanged key, value and headers.

    \b
      kafka replay --brokers localhost:9092 --topic lines.dead --dry-run
      kafka replay --brokers localhost:9092 --topic lines.dead --limit 1
      kafka replay --brokers localhost:9092 --topic lines.dead --only error=KeyError
      kafka replay --brokers localhost:9092 --topic lines.dead --to lines.again --group again

    Each letter is sent once, since the commits of a group remember the sent letters. A second call sends only new letters, and letters that
    the first call did not choose. If a replay is killed or loses its broker, the next call may repeat a few hundred letters. Another
    --group sends all letters again.

    Letters stay in TOPIC until its retention deletes them. A record that fails again becomes a new letter. Records get the current
    time as timestamp, since retention would delete old ones. With --to, the key of a record chooses its partition. A letter with a
    truncated value cannot be sent.

    Exit status: 0, or 1 if chosen letters cannot be sent.
    """

    async def work(link: "AdminClient") -> int:
        from engine.cli.kafka_dead_letters import replay_dead_letters

        return await replay_dead_letters(link, topic, conditions, **options)

    return run_on_cluster(brokers, security, work)
