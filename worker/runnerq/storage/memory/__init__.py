"""The in-memory backend: the reference model, and the store of tests and experiments."""

from runnerq.storage.memory.backend import MemoryBackend

__all__ = ["MemoryBackend"]
