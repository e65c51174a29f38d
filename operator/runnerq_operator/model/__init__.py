"""RunnerQueue and RunnerWorkerPool, version v1alpha1, as typed models.

The one source of what a person may write: `crds/*.yaml`, the checks of `runnerq dev` and the reference
in docs/ are generated from it. Nothing here touches a cluster or a backend.
"""

GROUP = "runnerq.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

QUEUE_LABEL = f"{GROUP}/queue"
"""On everything that is made for a RunnerQueue: its name."""
POOL_LABEL = f"{GROUP}/pool"
"""On everything that is made for one of its pools: the pool's name."""
