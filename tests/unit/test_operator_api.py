"""Calls to the API server: what is sent, what a refusal becomes, and that nothing is written unasked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec
import pytest

from runnerq_operator.kube.api import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    KubeApi,
    NotFound,
    Unreachable,
)
from runnerq_operator.kube.kinds import DEPLOYMENT, POD, QUEUE, Kind
from runnerq_operator.kube.leadership import Leadership, NotLeading


@dataclass
class Said:
    status: int
    body: bytes

    async def read(self) -> bytes:
        return self.body


@dataclass
class Wire:
    """A transport that answers as it is told, and notes what was sent."""

    status: int = 200
    answer: Any = field(default_factory=dict[str, Any])
    error: Exception | None = None
    sent: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def param_serialize(
        self,
        *,
        method: str,
        resource_path: str,
        query_params: list[tuple[str, str]],
        header_params: dict[str, str],
        body: dict[str, Any] | None,
        auth_settings: list[str],
    ) -> tuple[str, str, dict[str, str], Any, Any]:
        self.sent.append(
            {"method": method, "path": resource_path, "query": dict(query_params), "body": body}
            | {"content": header_params["Content-Type"]}
        )
        return method, resource_path, header_params, body, None

    async def call_api(
        self,
        method: str,
        url: str,
        *,
        header_params: dict[str, str],
        body: Any,
        _request_timeout: aiohttp.ClientTimeout,
    ) -> Said:
        self.sent[-1]["timeout"] = _request_timeout.total
        if self.error is not None:
            raise self.error
        text = self.answer if isinstance(self.answer, bytes) else msgspec.json.encode(self.answer)
        return Said(self.status, text)

    async def close(self) -> None:
        pass


@dataclass
class Observer:
    seen: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    def request(self, verb: str, resource: str, code: str, seconds: float) -> None:
        self.seen.append((verb, resource, code))


def api(wire: Wire, observer: Observer | None = None, *, seconds: float = 60.0) -> KubeApi:
    return KubeApi(wire, may_write=lambda: seconds, observer=observer or Observer())


@pytest.mark.parametrize(
    ("kind", "arguments", "path"),
    [
        (POD, ("n",), "/api/v1/namespaces/n/pods"),
        (POD, (None,), "/api/v1/pods"),
        (DEPLOYMENT, ("n", "d", "scale"), "/apis/apps/v1/namespaces/n/deployments/d/scale"),
        (QUEUE, (None,), "/apis/runnerq.dev/v1alpha1/runnerqueues"),
    ],
)
def test_every_object_has_one_path(kind: Kind, arguments: tuple[str, ...], path: str):
    assert kind.path(*arguments) == path


async def test_an_apply_names_its_manager_and_forces_only_when_asked():
    wire = Wire()
    await api(wire).apply(DEPLOYMENT, "n", "d", {"spec": {}}, manager="m")
    sent = wire.sent[0]
    assert sent["method"] == "PATCH"
    assert sent["query"] == {"fieldManager": "m", "force": "false"}
    assert sent["content"] == "application/apply-patch+yaml"
    assert sent["body"] == {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {}}


async def test_a_deletion_is_of_one_object_and_never_of_its_successor():
    wire = Wire()
    await api(wire).delete(POD, "n", "p", uid="u1")
    assert wire.sent[0]["body"]["preconditions"] == {"uid": "u1"}


@pytest.mark.parametrize(
    ("status", "answer", "error"),
    [
        (404, {"reason": "NotFound", "message": "no"}, NotFound),
        (409, {"reason": "Conflict", "message": "changed"}, Conflict),
        (422, {"reason": "Invalid", "message": "bad"}, Invalid),
        (400, {"reason": "BadRequest", "message": "bad"}, Invalid),
        (403, {"message": 'User "x" cannot list resource "pods" in API group ""'}, Forbidden),
        (403, {"message": "exceeded quota: pods=1"}, Invalid),
        (429, {"message": "storage is (re)initializing"}, Unreachable),
        (500, {"message": "etcd is gone"}, Unreachable),
        (500, {"message": "failed to create typed patch object: .spec.x: no such field"}, Invalid),
        (503, {}, Unreachable),
        (418, {"message": "teapot"}, ApiError),
        (200, b"<html>a proxy's page</html>", Unreachable),
    ],
)
async def test_an_answer_becomes_the_error_that_callers_tell_apart(
    status: int, answer: Any, error: type[Exception]
):
    with pytest.raises(error):
        await api(Wire(status=status, answer=answer)).get(POD, "n", "p")


@pytest.mark.parametrize(
    "error", [aiohttp.ClientConnectionError("refused"), TimeoutError(), OSError("no route")]
)
async def test_no_answer_is_never_an_empty_one(error: Exception):
    observer = Observer()
    with pytest.raises(Unreachable, match="no answer to list pods"):
        await api(Wire(error=error), observer).list_all(POD, None)
    assert observer.seen == [("list", "pods", "none")]


async def test_the_api_servers_own_words_come_through():
    with pytest.raises(Invalid, match=r"spec\.replicas: must be positive"):
        await api(Wire(status=422, answer={"message": "spec.replicas: must be positive"})).get(
            POD, "n", "p"
        )


async def test_a_write_without_leadership_is_never_sent():
    wire, leadership = Wire(), Leadership(lambda: 0.0)
    gated = KubeApi(wire, may_write=leadership.check, observer=Observer())
    for write in (
        gated.apply(POD, "n", "p", {}, manager="m"),
        gated.create(POD, "n", {}, manager="m"),
        gated.merge(POD, "n", "p", {}, manager="m"),
        gated.replace(POD, "n", "p", {}, manager="m"),
        gated.delete(POD, "n", "p", uid="u"),
    ):
        with pytest.raises(NotLeading):
            await write
    assert wire.sent == []
    await gated.get(POD, "n", "p")
    assert len(wire.sent) == 1


async def test_a_write_never_waits_longer_than_the_leadership_lasts():
    wire = Wire()
    await api(wire, seconds=3.5).merge(POD, "n", "p", {}, manager="m")
    await api(wire, seconds=3.5).get(POD, "n", "p")
    assert [sent["timeout"] for sent in wire.sent] == [3.5, 15.0]


async def test_every_call_is_counted_by_verb_resource_and_code():
    observer = Observer()
    calls = api(Wire(), observer)
    await calls.merge(QUEUE, "n", "q", {}, manager="m", subresource="status")
    with pytest.raises(NotFound):
        await api(Wire(status=404), observer).get(POD, "n", "p")
    assert observer.seen == [("patch", "runnerqueues/status", "200"), ("get", "pods", "404")]
