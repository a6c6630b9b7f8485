"""`kafka`: how far groups are, which records were given up, and sending those back."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine.cli.command_group import CommandGroup
from engine.cli.kafka_access import SECURITY_HELP, ask_cluster, cluster_options, json_option
from engine.cli.options import Duration

if TYPE_CHECKING:
    from engine.kafka.cluster_link import ClusterLink

_group_option = click.option("--group", required=True, metavar="NAME", help="The consumer group: that of the KafkaSpoutConfig.")
_topics_option = click.option("--topic", "topics", metavar="NAME", multiple=True, help="This topic only; may be repeated.")
_letters_option = click.option("--topic", required=True, metavar="NAME", help="The dead-letter topic.")
_only_option = click.option(
    "--only",
    "conditions",
    metavar="NAME=TEXT",
    multiple=True,
    help="Letters of this topic, topology, component, reason, error (a part of it) or letter; may be repeated.",
)


@click.group("kafka", cls=CommandGroup, short_help="Lag, offsets and dead letters of Kafka.")
def command() -> None:
    """Look at consumer groups and dead letters of a Kafka cluster, and send dead letters back.

    \b
      kafka lag --brokers localhost:9092 --group words
      kafka offsets --brokers localhost:9092 --group words
      kafka reset --brokers localhost:9092 --group words --topic lines --to earliest
      kafka dead-letters --brokers localhost:9092 --topic lines.dead
      kafka replay --brokers localhost:9092 --topic lines.dead

    KAFKA_BROKERS may stand for --brokers, KAFKA_SECURITY for --security. Looking writes nothing, and joins no group.
    """


@command.command("lag", short_help="How far a group is behind, and who reads.", epilog=SECURITY_HELP)
@cluster_options
@_group_option
@_topics_option
@click.option(
    "--watch", "watch_secs", metavar="DURATION", type=Duration(), help="Look again and again, this far apart: 2s. Ctrl-C ends it."
)
@json_option("One JSON object for each look, for programs.")
def lag_command(
    brokers: str, security: Path | None, group: str, topics: tuple[str, ...], watch_secs: float | None, *, as_json: bool
) -> int:
    """Show for each partition what GROUP has committed, where the partition ends, and how many records lie between.

    \b
      kafka lag --brokers localhost:9092 --group words
      kafka lag --brokers localhost:9092 --group words --topic lines --watch 2s
      kafka lag --brokers localhost:9092 --group words --json | jq .lag

    `acked` counts, of the lag, the records above the commit that a topology is done with: its next run skips them. `client`, `member` and
    `host` say who reads the partition, while the group is active; `topology` is the one that committed.
    """

    async def work(link: "ClusterLink") -> None:
        from engine.cli.kafka_groups import show_lag

        await show_lag(link, group, topics, watch_secs, as_json=as_json)

    try:
        return ask_cluster(brokers, security, work)
    except KeyboardInterrupt:
        if watch_secs is None:
            raise
        return 0  # it has no other end


@command.command("offsets", short_help="What a group has committed, and what that says.", epilog=SECURITY_HELP)
@cluster_options
@_group_option
@_topics_option
@json_option("One JSON object, for programs.")
def offsets_command(brokers: str, security: Path | None, group: str, topics: tuple[str, ...], *, as_json: bool) -> int:
    """Show the commits of GROUP, with the bounds of the partitions and what the metadata say.

    \b
      kafka offsets --brokers localhost:9092 --group words
      kafka offsets --brokers localhost:9092 --group words --topic lines --json | jq .partitions

    A commit of a topology names it, and the offsets above the commit that are done: so many, in so many runs. Metadata of another program
    are shown as such. A commit beyond the end (the topic was made anew) or below the beginning (retention was faster) is flagged.
    """

    async def work(link: "ClusterLink") -> None:
        from engine.cli.kafka_groups import show_offsets

        await show_offsets(link, group, topics, as_json=as_json)

    return ask_cluster(brokers, security, work)


@command.command("reset", short_help="Have a group read on from elsewhere.", epilog=SECURITY_HELP)
@cluster_options
@_group_option
@click.option("--topic", required=True, metavar="NAME", help="The topic whose commits are set.")
@click.option(
    "--partition", "partitions", type=click.IntRange(min=0), metavar="N", multiple=True, help="This partition only; may be repeated."
)
@click.option("--to", "target", required=True, metavar="WHERE", help="earliest, latest, an offset, or a time such as 2026-01-31T12:00Z.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
def reset_command(brokers: str, security: Path | None, group: str, **chosen: Any) -> int:
    """Say what GROUP would commit, ask, and commit it: its next run reads on from there.

    \b
      kafka reset --brokers localhost:9092 --group words --topic lines --to earliest
      kafka reset --brokers localhost:9092 --group words --topic lines --partition 2 --to 1042 --yes
      kafka reset --brokers localhost:9092 --group words --topic lines --to 2026-01-31T12:00+01:00

    Only while nobody reads as GROUP. A time without an offset is this machine's; it leads to the first record of that time or later. The
    acked offsets above the commit are forgotten: what lies behind it is read again, also what was done.
    """

    async def work(link: "ClusterLink") -> int:
        from engine.cli.kafka_groups import reset_offsets

        return await reset_offsets(link, group, **chosen)

    return ask_cluster(brokers, security, work)


@command.command("dead-letters", short_help="The records that were given up, and why.", epilog=SECURITY_HELP)
@cluster_options
@_letters_option
@_only_option
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="The newest N.")
@click.option("--show", "shown", metavar="LETTER", help="All of one, by its name in the list: 0@17.")
@json_option("One JSON object for each letter, whole, for programs.")
def dead_letters_command(brokers: str, security: Path | None, topic: str, conditions: tuple[str, ...], **options: Any) -> int:
    """List the dead letters in TOPIC, the newest last: when and where from, why, after how many attempts.

    \b
      kafka dead-letters --brokers localhost:9092 --topic lines.dead
      kafka dead-letters --brokers localhost:9092 --topic lines.dead --only reason=timeout --only component=parse
      kafka dead-letters --brokers localhost:9092 --topic lines.dead --show 0@17
      kafka dead-letters --brokers localhost:9092 --topic lines.dead --json | jq -r .error | sort | uniq -c

    `letter` is its name: partition@offset in TOPIC. `sent` says whether `replay` has sent it back, as its default group.
    """

    async def work(link: "ClusterLink") -> None:
        from engine.cli.kafka_letters import show_letter, show_letters

        if options["shown"] is not None:
            await show_letter(link, topic, options["shown"], as_json=options["as_json"])
        else:
            await show_letters(link, topic, conditions, options["limit"], as_json=options["as_json"])

    return ask_cluster(brokers, security, work)


@command.command("replay", short_help="Send dead letters back to where they came from.", epilog=SECURITY_HELP)
@cluster_options
@_letters_option
@_only_option
@click.option("--to", metavar="TOPIC", help="Send all there, instead of each to its own topic.")
@click.option("--group", metavar="NAME", help="The group whose commits hold what was sent. Default: the topic's name and .replay")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Send N at most.")
@click.option("--dry-run", "is_dry", is_flag=True, help="Say what would be sent, and send nothing.")
@json_option("One JSON object with what was done, for programs.")
def replay_command(brokers: str, security: Path | None, topic: str, conditions: tuple[str, ...], **options: Any) -> int:
    """Send the dead letters in TOPIC back: key, value and headers as they were, to the topic and partition they came from.

    \b
      kafka replay --brokers localhost:9092 --topic lines.dead --dry-run
      kafka replay --brokers localhost:9092 --topic lines.dead --limit 1
      kafka replay --brokers localhost:9092 --topic lines.dead --only error=KeyError
      kafka replay --brokers localhost:9092 --topic lines.dead --to lines.again --group again

    Each letter is sent once: what was sent is noted in the commits of a group, so that a second call sends what came since, and what the
    first one did not choose. Where a replay is killed, or loses its broker, the few hundred letters that it was sending may be sent again
    by the next one. Another --group sends all anew.

    Letters stay in TOPIC until its retention deletes them; what fails again comes as a new one. A record gets the time of its sending,
    since retention would delete an old one. With --to, a record goes to the partition of its key. A value that was too large for a letter
    cannot be sent: only its beginning is there.

    Exit status: 0; 1 where letters that were meant cannot be sent.
    """

    async def work(link: "ClusterLink") -> int:
        from engine.cli.kafka_letters import send_back

        return await send_back(link, topic, conditions, **options)

    return ask_cluster(brokers, security, work)
