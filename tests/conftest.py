"""What every test may ask for: the servers of tests/servers."""

from __future__ import annotations

pytest_plugins = ["tests.servers.postgres"]
