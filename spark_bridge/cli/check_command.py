"""`check`: what is wrong with a pipeline file, without Spark."""

import click


@click.command("check", short_help="Say what is wrong with a pipeline file, without running it.")
@click.argument("spec", metavar="FILE[:NAME]")
def command(spec: str) -> int:
    """Import FILE, find its pipeline, and say what it takes. No Spark is started, and the function is not called.

    \b
      check pipeline.py
      check pipeline.py:traffic && deploy

    What the function makes of the columns is judged when it runs: `run --until-caught-up` over a small folder shows it.
    """
    from spark_bridge.pipeline.load import load_pipeline

    definition, _ = load_pipeline(spec)
    takes = "a stream, and returns writers" if definition.kind == "stream" else "each batch and its txid"
    click.echo(f"{spec}: {definition.function.__name__}() is in order: it takes {takes}; alone its query is called {definition.name!r}")
    return 0
