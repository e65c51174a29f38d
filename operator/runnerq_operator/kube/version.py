"""Which version of the operator this is, as it introduces itself to the API server."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def operator_version() -> str:
    """Version of the installed distribution; `unknown` when run from files alone."""
    try:
        return version("runnerq")
    except PackageNotFoundError:
        return "unknown"


def user_agent() -> str:
    """What the audit log of the cluster shows for the operator's requests."""
    return f"runnerq-operator/{operator_version()}"
