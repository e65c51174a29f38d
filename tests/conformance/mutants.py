from __future__ import annotations

from typing import Protocol

import pytest


class M(Protocol):
    def apply(self, monkeypatch: pytest.MonkeyPatch) -> None: ...


MUTANTS: dict[str, M] = {}
