"""Ages of watches, the verdict on the process, and the settings it starts from."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from runnerq.errors import ConfigurationError
from runnerq_operator.kube.caches import Caches
from runnerq_operator.kube.health import RECONCILE_LIMIT_SECONDS, WATCH_LIMIT_SECONDS, Health
from runnerq_operator.kube.kinds import QUEUE, WATCHED
from runnerq_operator.kube.leadership import Leadership
from runnerq_operator.kube.metrics import ObjectGauges, OperatorMetrics
from runnerq_operator.kube.settings import settings_from
from runnerq_operator.kube.watches import WatchAges


class Stream:
    """Stands for a response: bytes arrive when the test says so."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.closed = False
        self.content = self
        self.total_bytes = 0


class Setup:
    def __init__(self) -> None:
        self.now = 1000.0
        self.restarts: list[str] = []
        self.ages = WatchAges(clock=lambda: self.now, restarted=self.restarts.append)
        self.caches = Caches(["shop"])
        self.leadership = Leadership(lambda: self.now)
        self.health = Health(CollectorRegistry(), self.caches, self.ages, self.leadership)

    def answered(self, path: str, stream: Any, *, watch: bool = True) -> None:
        self.ages.answered(path, stream, watch=watch)


class Term:
    def __init__(self, age: float) -> None:
        self.registry = CollectorRegistry()
        self._age = age

    def reconcile_age(self) -> float:
        return self._age


PODS = "/api/v1/namespaces/shop/pods"


@pytest.fixture
def setup() -> Setup:
    return Setup()


def test_a_watch_that_never_opens_grows_old(setup: Setup):
    setup.ages.expect("pods", "shop")
    setup.now += 50
    assert setup.ages.ages() == {("pods", "shop"): 50.0}


def test_bytes_keep_a_watch_young_bookmarks_included(setup: Setup):
    setup.ages.expect("pods", "shop")
    stream = Stream()
    setup.answered(PODS, stream)
    setup.now += 60
    stream.total_bytes += 200
    assert setup.ages.ages() == {("pods", "shop"): 0.0}
    setup.now += 60
    assert setup.ages.ages() == {("pods", "shop"): 60.0}


def test_a_refused_watch_is_no_sign_of_life(setup: Setup):
    setup.ages.expect("pods", "shop")
    setup.now += 60
    setup.answered(PODS, Stream(status=410))
    assert setup.ages.ages() == {("pods", "shop"): 60.0}


def test_only_an_opening_after_the_first_is_a_restart(setup: Setup):
    setup.ages.expect("pods", "shop")
    setup.answered(PODS, Stream(), watch=False)
    setup.answered(PODS, Stream())
    assert setup.restarts == []
    setup.answered(PODS, Stream())
    assert setup.restarts == ["pods"]


def test_a_cluster_wide_watch_is_told_from_one_of_a_namespace(setup: Setup):
    setup.ages.expect("pods", "")
    setup.now += 10
    setup.answered(PODS, Stream())
    setup.answered("/api/v1/pods", Stream())
    assert setup.ages.ages() == {("pods", ""): 0.0}


def test_a_silent_watch_makes_the_process_unhealthy_and_is_named(setup: Setup):
    setup.ages.expect("pods", "shop")
    assert setup.health.problems() == []
    setup.now += WATCH_LIMIT_SECONDS + 1
    assert setup.health.problems() == ["the watch of pods in shop has been silent for 181 s"]


def queue_seen(setup: Setup) -> None:
    metadata: dict[str, Any] = {"namespace": "shop", "name": "q", "uid": "u", "generation": 3}
    status = {
        "observedGeneration": 2,
        "conditions": [{"type": "Ready", "status": "False"}],
    }
    body = {"metadata": {**metadata, "resourceVersion": "1"}, "spec": {}, "status": status}
    setup.caches[QUEUE].observe(body, deleted=False)


def test_a_leader_that_passes_nothing_over_is_unhealthy_only_if_there_is_something(setup: Setup):
    setup.health.term = Term(RECONCILE_LIMIT_SECONDS + 1)
    assert setup.health.problems() == []
    queue_seen(setup)
    assert setup.health.problems() == ["the last pass over a queue ended 601 s ago"]
    setup.health.term = None
    assert setup.health.problems() == [], "a replica that does not lead has nothing to pass over"


async def get(setup: Setup, path: str) -> tuple[int, str]:
    app = setup.health.app()
    (handler,) = [
        route.handler
        for route in app.router.routes()
        if route.get_info().get("path") == path and route.method == "GET"
    ]
    request: Any = None
    response: Any = await handler(request)
    assert isinstance(response, web.Response)
    return response.status, (response.text or "")


async def test_ready_means_that_everything_was_listed(setup: Setup):
    assert (await get(setup, "/readyz"))[0] == 503
    for kind in WATCHED:
        setup.caches[kind].replace_all("shop", [], "1")
    assert (await get(setup, "/readyz"))[0] == 200


async def test_health_tells_the_ages_and_who_leads(setup: Setup):
    setup.ages.expect("pods", "shop")
    setup.leadership.trust_until(setup.now + 5)
    setup.health.term = Term(12.34)
    setup.now += 2
    status, text = await get(setup, "/healthz")
    assert status == 200
    assert msgspec.json.decode(text) == {
        "healthy": True,
        "problems": [],
        "leading": True,
        "watchAgeSeconds": {"shop/pods": 2.0},
        "lastReconcileAgeSeconds": 12.3,
    }
    setup.now += 300
    assert (await get(setup, "/healthz"))[0] == 503


def shown(setup: Setup) -> set[str]:
    gauges = ObjectGauges(setup.caches, setup.ages, setup.leadership, wall=lambda: 5000.0)
    return {
        f"{sample.name}{sorted(sample.labels.values())}={float(sample.value)}"
        for family in gauges.collect()
        for sample in family.samples
    }


def test_conditions_are_shown_by_the_leader_only_and_go_with_their_object(setup: Setup):
    queue_seen(setup)
    assert shown(setup) == {"runnerq_operator_leader[]=0.0"}
    setup.leadership.trust_until(setup.now + 5)
    assert shown(setup) == {
        "runnerq_operator_leader[]=1.0",
        "runnerq_resource_condition['False', 'Ready', 'RunnerQueue', 'q', 'shop']=1.0",
        "runnerq_resource_generation_lag['RunnerQueue', 'q', 'shop']=1.0",
    }
    gone = setup.caches[QUEUE].get("shop", "q")
    assert gone is not None
    gone["metadata"]["resourceVersion"] = "2"
    setup.caches[QUEUE].observe(gone, deleted=True)
    assert shown(setup) == {"runnerq_operator_leader[]=1.0"}


def test_the_stalest_watch_of_a_kind_is_the_one_that_is_shown(setup: Setup):
    setup.ages.expect("pods", "a")
    setup.now += 40
    setup.ages.expect("pods", "b")
    assert "runnerq_operator_last_watch_event_timestamp_seconds['pods']=4960.0" in shown(setup)


def test_requests_are_counted():
    metrics = OperatorMetrics(CollectorRegistry())
    metrics.request("get", "pods", "200", 0.01)
    metrics.drift("Deployment", "spec.replicas")
    metrics.watch_restarted("pods")
    value = metrics.registry.get_sample_value
    labels = {"verb": "get", "resource": "pods", "code": "200"}
    assert value("runnerq_operator_api_requests_total", labels) == 1
    drift = {"kind": "Deployment", "field": "spec.replicas"}
    assert value("runnerq_operator_drift_corrections_total", drift) == 1
    assert value("runnerq_operator_watch_restarts_total", {"kind": "pods"}) == 1


def test_settings_come_from_the_environment():
    settings = settings_from(
        {
            "RUNNERQ_OPERATOR_NAMESPACE": "ops",
            "RUNNERQ_OPERATOR_NAMESPACES": "a, b,,a",
            "POD_NAME": "pod",
            "RUNNERQ_METRICS_PORT": "0",
        }
    )
    assert settings.namespaces == ("a", "b")
    assert settings.own_namespace == "ops"
    assert settings.metrics_port == 0
    assert settings.kubeconfig is None


def test_the_identity_of_a_process_is_never_used_twice():
    values = {"RUNNERQ_OPERATOR_NAMESPACE": "ops", "POD_NAME": "pod"}
    assert settings_from(values).identity != settings_from(values).identity


def test_no_namespaces_means_all_of_them():
    assert settings_from({"RUNNERQ_OPERATOR_NAMESPACE": "ops"}).namespaces is None


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"RUNNERQ_OPERATOR_NAMESPACES": "Shop"}, "RUNNERQ_OPERATOR_NAMESPACES: 'Shop'"),
        ({"RUNNERQ_METRICS_PORT": "many"}, "RUNNERQ_METRICS_PORT: 'many'"),
        ({"RUNNERQ_METRICS_PORT": "70000"}, "RUNNERQ_METRICS_PORT"),
        ({"RUNNERQ_OPERATOR_NAMESPACE": "a/b"}, "RUNNERQ_OPERATOR_NAMESPACE: 'a/b'"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(values: dict[str, str], named: str):
    with pytest.raises(ConfigurationError, match=named):
        settings_from({"RUNNERQ_OPERATOR_NAMESPACE": "ops", **values})


def test_outside_of_a_pod_the_namespace_has_to_be_said():
    with pytest.raises(ConfigurationError, match="RUNNERQ_OPERATOR_NAMESPACE: this is not a pod"):
        settings_from({})
