"""What users test with: a clock moved by hand, a backend that fails on demand, work run to its end."""

from runnerq.testing.clock import VirtualClock
from runnerq.testing.drain import drain
from runnerq.testing.fault_plan import Stall
from runnerq.testing.faults import FaultyBackend

__all__ = ["FaultyBackend", "Stall", "VirtualClock", "drain"]
