"""Chooses who provides the cluster: a given kubeconfig, else kind, else this machine."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cluster.given import KUBECONFIG_VARIABLE, GivenCluster
from tests.cluster.kind import KindCluster
from tests.cluster.local import cluster as local
from tests.cluster.provider import Cluster, ClusterFailed
from tests.cluster.stages import Stages

PROVIDERS = ("given", "kind", "local")


def open_cluster(
    stages: Stages,
    *,
    name: str = local.DEFAULT_NAME,
    provider: str | None = None,
    own: bool = False,
) -> Cluster:
    """Return a running cluster; starts one, or finds the one of this name.

    Args:
        stages: is told how long each part took, and why a provider was passed over.
        name: which cluster.
        provider: only this one; without, the first of `PROVIDERS` that can be had.
        own: it belongs to this process: any later start removes it once this process is gone.

    Raises:
        ClusterFailed, MissingProgram, CommandFailed: none can be had; the message says what to
        install or to set.
    """
    given = os.environ.get(KUBECONFIG_VARIABLE)
    if provider == "given" or (provider is None and given):
        if not given:
            raise ClusterFailed(f"set {KUBECONFIG_VARIABLE} to the cluster's kubeconfig")
        return GivenCluster(Path(given))
    if provider == "kind":
        reason = KindCluster.missing()
        if reason is not None:
            raise ClusterFailed(f"kind cannot be used: {reason}")
        return _kind(name, stages)
    if provider is None and KindCluster.missing() is None:
        try:
            return _kind(name, stages)
        except ClusterFailed as error:
            stages.say(f"kind did not work, so a cluster on this machine: {error}")
    return local.up(stages, name, own=own)


def close_cluster(name: str = local.DEFAULT_NAME) -> list[str]:
    """Remove the clusters of this name that kind or this machine runs; return the providers."""
    removed: list[str] = []
    if KindCluster.missing() is None and (kind := KindCluster(name)).running():
        kind.down()
        removed.append(kind.provider)
    if local.down(name):
        removed.append("local")
    return removed


def running_cluster(name: str = local.DEFAULT_NAME) -> Cluster | None:
    """The cluster of this name if it runs; never starts one."""
    given = os.environ.get(KUBECONFIG_VARIABLE)
    if given:
        return GivenCluster(Path(given))
    if KindCluster.missing() is None and (kind := KindCluster(name)).running():
        return kind
    return local.find(name)


def _kind(name: str, stages: Stages) -> Cluster:
    cluster = KindCluster(name)
    try:
        cluster.up(stages)
    except BaseException:
        cluster.down()
        raise
    return cluster
