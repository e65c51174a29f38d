"""Property tests of this folder: their examples are pure, so only a busy machine makes them slow."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("unit", deadline=None)
settings.load_profile("unit")
