"""From a RunnerQueue as the API server has it to what the loop wants, with its Secrets resolved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from runnerq_operator.control.desired import BackendAddress, BackendProblem, DesiredQueue
from runnerq_operator.fleet.port import QueueKey, SecretKey
from runnerq_operator.kube.merge import merged
from runnerq_operator.kube.objects import name_of, namespace_of, uid_of
from runnerq_operator.kube.secrets import SecretMissing, fingerprint, secret_value
from runnerq_operator.model.queue import RunnerQueueSpec

if TYPE_CHECKING:
    from runnerq_operator.kube.objects import Object
    from runnerq_operator.kube.secrets import SecretApi


class NotUnderstood(Exception):
    """The object does not fit this version's model: the installed CRDs are of another version."""


async def desired_queue(api: SecretApi, item: Object) -> DesiredQueue:
    """The queue as it is to be.

    Raises NotUnderstood, and what the API raises when it does not answer: then nothing is known about
    the Secret, which is not the same as its absence.
    """
    try:
        spec = msgspec.convert(item["spec"], RunnerQueueSpec)
    except msgspec.ValidationError as error:
        raise NotUnderstood(
            f"{error}; the CRDs in this cluster are of another version than the operator: upgrade both"
        ) from error
    return DesiredQueue(
        key=QueueKey(namespace_of(item), name_of(item)),
        spec=spec,
        backend=await _backend(api, item, spec),
        generation=item["metadata"].get("generation", 0),
        pod_templates={pool.name: merged(spec.template, pool.template) for pool in spec.pools},
    )


async def _backend(
    api: SecretApi, item: Object, spec: RunnerQueueSpec
) -> BackendAddress | BackendProblem:
    postgres = spec.backend.postgres
    if postgres is None:
        return BackendProblem(
            reason="BackendUnsupported", message="this version of the operator has only postgres"
        )
    secret = postgres.url_secret_ref
    try:
        url = await secret_value(api, namespace_of(item), secret.name, secret.key)
    except SecretMissing as error:
        return BackendProblem(reason="SecretNotFound", message=str(error))
    return BackendAddress(
        url=url,
        schema=postgres.schema,
        secret=SecretKey(secret.name, secret.key),
        fingerprint=fingerprint(uid_of(item), url),
    )
