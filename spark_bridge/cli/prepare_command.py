"""`prepare`: what makes sessions of Spark start sooner."""

import click


@click.command("prepare", short_help="Have sessions of Spark start in less than half the time, from now on.")
@click.option("--remove", is_flag=True, help="Remove what was made.")
def command(*, remove: bool) -> int:
    """Lay the classes of Spark out on disk once, as an archive that Java maps into its memory. Sessions find it by themselves.

    \b
      prepare             about a minute once, and 200 MB in the folder of caches
      prepare --remove

    It is for this Java, this pyspark and these folders of settings: after an upgrade, prepare again.
    One that does not fit is not taken.
    """
    from spark_bridge.process.archive_builder import build_archive
    from spark_bridge.process.child.class_archive import archive_path, archives

    if remove:
        there = archives()
        for path in there:
            path.unlink(missing_ok=True)
            click.echo(f"{path} is removed")
        if not there:
            click.echo(f"there is none: {archive_path()}")
        return 0
    click.echo("Spark starts once, does a little of everything, and ends: about a minute ...", err=True)
    made = build_archive()
    click.echo(f"{made} is made: {made.stat().st_size / 1e6:,.0f} MB")
    return 0
