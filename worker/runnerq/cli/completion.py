"""`runnerq completion SHELL`: the script that makes a shell complete commands and options."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

from runnerq.cli.exits import CommandFailed

VARIABLE = "_RUNNERQ_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL.

    Bash and zsh: eval "$(runnerq completion bash)" in the shell's start file. Fish: save it as
    ~/.config/fish/completions/runnerq.fish.
    """
    from runnerq.cli.main import cli

    made = get_completion_class(shell)
    if made is None:
        raise CommandFailed(f"no completion for {shell}")
    click.echo(made(cli, {}, "runnerq", VARIABLE).source())
    sys.stdout.flush()
