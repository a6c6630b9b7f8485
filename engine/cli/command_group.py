"""A command that has commands: `state`, `kafka`."""

import click

from engine.names import did_you_mean


class CommandGroup(click.Group):
    """Lists its commands in the order in which they are declared."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return their names, in the order in which they are met."""
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command where there is none of this name."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            ctx.fail(f"{args[0]!r} is not a command. {did_you_mean(args[0], self.commands)}")
        return super().resolve_command(ctx, args)
