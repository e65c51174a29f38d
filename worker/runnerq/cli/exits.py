"""Exit codes of the command line, and which error means which. Pure.

    0 ok    1 failed    2 usage    3 not found    4 conflict    5 backend unreachable
    6 denied    7 timed out    130 interrupted

They are part of the interface: scripts branch on them.
"""

from __future__ import annotations

from enum import IntEnum

from runnerq.errors import (
    ActivityNotFound,
    BackendUnavailable,
    ConfigurationError,
    DuplicateActivity,
    InvalidActivity,
    RunnerQError,
    StorageError,
)


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    UNREACHABLE = 5
    DENIED = 6
    TIMED_OUT = 7
    INTERRUPTED = 130


class CommandFailed(RunnerQError):
    """Ends a command with a code and one line on stderr; "" for none, when all is said already."""

    def __init__(self, message: str = "", code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


def exit_code_of(error: BaseException) -> ExitCode:
    """The code that an error ends a command with."""
    match error:
        case CommandFailed():
            return error.code
        case ActivityNotFound():
            return ExitCode.NOT_FOUND
        case DuplicateActivity():
            return ExitCode.CONFLICT
        case BackendUnavailable():
            return ExitCode.UNREACHABLE
        case StorageError() if _denied(error):
            return ExitCode.DENIED
        case ConfigurationError() | InvalidActivity():
            return ExitCode.USAGE
        case TimeoutError():
            return ExitCode.TIMED_OUT
        case _:
            return ExitCode.FAILED


def _denied(error: StorageError) -> bool:
    # Postgres: class 28 is a refused login, 42501 a missing right. Read without its driver, which
    # may not be installed.
    code = getattr(error.__cause__, "sqlstate", None)
    return isinstance(code, str) and (code.startswith("28") or code == "42501")
