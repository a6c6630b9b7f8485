"""`package`: what Spark needs of this package on a cluster of its own."""

from pathlib import Path

import click


@click.command("package", short_help="Write the one zip that Spark needs on a cluster of its own.")
@click.argument("output", type=click.Path(dir_okay=False, path_type=Path))
def command(output: Path) -> int:
    """Write OUTPUT, a zip of what drivers and executors need to read a hand-over. It stands on pyarrow alone.

    \b
      package stormcell-spark.zip
      spark-submit --py-files stormcell-spark.zip program.py
      run pipeline.py --folder s3://bucket/handover --master spark://box:7077 --py-files stormcell-spark.zip
    """
    from spark_bridge.source import package_zip

    try:
        click.echo(f"{package_zip(output)} is written: {output.stat().st_size:,} bytes")
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror}") from error
    return 0
