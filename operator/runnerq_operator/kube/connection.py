"""How the API server is reached: from inside a pod, or by a kubeconfig when there is none.

The token is read anew before requests, so that a rotated service-account token needs no restart.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from runnerq_operator.kube.version import user_agent

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration

    from runnerq_operator.kube.api import Transport


class NoCluster(Exception):
    """There is no way to an API server; the message says what to set."""


async def cluster_configuration(kubeconfig: str | None) -> Configuration:
    """Configuration of the official client: `kubeconfig` if given, else the pod's service account.

    Raises NoCluster.
    """
    from kubernetes.aio import config
    from kubernetes.aio.client import Configuration

    configuration = Configuration()
    try:
        if kubeconfig:
            await config.load_kube_config(  # pyright: ignore[reportUnknownMemberType]
                config_file=kubeconfig, client_configuration=configuration
            )
        elif "KUBERNETES_SERVICE_HOST" in os.environ:
            config.load_incluster_config(  # pyright: ignore[reportUnknownMemberType]
                client_configuration=configuration
            )
        else:
            raise NoCluster(
                "this is not a pod, and no kubeconfig was given: set KUBECONFIG, or install the "
                "operator with the chart"
            )
    except config.ConfigException as error:
        raise NoCluster(f"the cluster's address cannot be read: {error}") from error
    return configuration


def api_client(configuration: Configuration) -> Transport:
    """The official client. Close it when done; it must be made on the event loop that uses it."""
    from kubernetes.aio.client import ApiClient

    client = ApiClient(configuration)
    client.user_agent = user_agent()
    return cast("Transport", client)  # its generated code carries no types
