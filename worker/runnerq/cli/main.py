"""`runnerq`: finds the command that was meant and turns what it raises into a line and an exit code.

Loads a command's module only when that command runs, so that `runnerq --help` stays fast. Commands of
other packages come in through the entry-point group `runnerq.commands`; nothing here imports them.
"""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.exceptions import NoArgsIsHelpError

from runnerq.cli.exits import CommandFailed, ExitCode, exit_code_of
from runnerq.cli.output import safe
from runnerq.errors import ConfigurationError, RunnerQError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from click.shell_completion import CompletionItem

GROUP = "runnerq.commands"

# name -> (where its click command is, its line in the help)
COMMANDS = {
    "worker": ("runnerq.cli.worker:worker", "Run activities of an app."),
    "enqueue": ("runnerq.cli.enqueue:enqueue", "Enqueue one activity; wait for it if asked."),
    "ls": ("runnerq.cli.ls:ls", "List activities in one state, newest first."),
    "show": ("runnerq.cli.show:show", "Show one activity with its timeline."),
    "tail": ("runnerq.cli.tail:tail", "Follow what happens in a queue."),
    "queues": ("runnerq.cli.queues:queues", "Show the queues and what waits in them."),
    "dlq": ("runnerq.cli.dlq:dlq", "Look at dead letters, and requeue them."),
    "bench": ("runnerq.cli.bench:bench", "Measure this machine and backend."),
    "migrate": ("runnerq.cli.migrate:migrate", "Bring the backend's schema up to date."),
    "console": ("runnerq.cli.console:console", "Serve the web console."),
    "version": ("runnerq.cli.version:version", "Show versions."),
    "completion": ("runnerq.cli.completion:completion", "Print the completion script of a shell."),
}
EXTERNAL_HELP = {
    "dev": "Run a queue and its pools on this machine.",
    "operator": "Run the Kubernetes operator.",
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and loads them when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *(name for name in _external() if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            return _load(cmd_name, COMMANDS[cmd_name][0])
        target = _external().get(cmd_name)
        return None if target is None else _load(cmd_name, target)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, self._help_of(name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=self._help_of(name))
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]

    @staticmethod
    def _help_of(name: str) -> str:
        if name in COMMANDS:
            return COMMANDS[name][1]
        return EXTERNAL_HELP.get(name, "")


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 conflict, 5 backend unreachable, "
    "6 denied, 7 timed out, 130 interrupted.",
)
def cli() -> None:
    """RunnerQ: a job engine for Python.

    Every option can also be set by a variable of the environment, shown in the command's help. The
    backend is RUNNERQ_BACKEND_URL or --backend-url.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `runnerq` and of `kubectl runnerq`."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str], *, program: str | None = None) -> int:
    """Run one command line; answers its exit code. Unexpected errors escape with their traceback."""
    try:
        cli.main(
            args=list(arguments), prog_name=program or program_name(sys.argv), standalone_mode=False
        )
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except (KeyboardInterrupt, click.Abort):
        return ExitCode.INTERRUPTED
    except NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return ExitCode.USAGE
    except click.UsageError as error:
        _say(_usage(error))
        return ExitCode.USAGE
    except click.ClickException as error:
        _say(error.format_message())
        return error.exit_code
    except (RunnerQError, TimeoutError) as error:
        if str(error):
            _say(str(error))
        return exit_code_of(error)
    return ExitCode.OK


def program_name(argv: Sequence[str]) -> str:
    """What the user typed: `kubectl runnerq` when kubectl started us.

    >>> [program_name([path]) for path in ("/usr/bin/runnerq", "/usr/bin/kubectl-runnerq")]
    ['runnerq', 'kubectl runnerq']
    """
    name = Path(argv[0]).name if argv else ""
    return "kubectl runnerq" if name.startswith("kubectl-") else "runnerq"


def _external() -> Mapping[str, str]:
    return {point.name: point.value for point in entry_points(group=GROUP)}


def _load(name: str, target: str) -> click.Command:
    module_name, _, attribute = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", "runnerq"):
            raise CommandFailed(f"`{name}` is not part of this installation: {error}") from error
        raise ConfigurationError(
            f'`{name}` needs {missing}, which is not installed; pip install "runnerq[{_extra(name)}]"'
        ) from error
    command = getattr(module, attribute)
    if not isinstance(command, click.Command):
        raise ConfigurationError(f"{target} is not a click command", field=f"entry point {name}")
    return command


def _extra(command: str) -> str:
    return command if command in ("console", "operator", "dev") else "all"


def _usage(error: click.UsageError) -> str:
    hint = "" if error.ctx is None else f"; see `{error.ctx.command_path} --help`"
    return error.format_message().rstrip(".") + hint


def _say(message: str) -> None:
    click.echo(f"error: {safe(' '.join(message.split()))}", err=True)


if __name__ == "__main__":
    main()
