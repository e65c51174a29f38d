"""The engine: claims activities, runs their handlers, acknowledges how they ended."""

from runnerq.engine.config import EngineConfig
from runnerq.engine.worker_engine import WorkerEngine
from runnerq.engine.worker_engine_builder import WorkerEngineBuilder

__all__ = ["EngineConfig", "WorkerEngine", "WorkerEngineBuilder"]
