"""The caches: watch and list in any order never bring back what is gone or make the newer older."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.virtual_time import run_in_virtual_time

from runnerq_operator.kube.cache import Change, ObjectCache
from runnerq_operator.kube.caches import Caches
from runnerq_operator.kube.kinds import DEPLOYMENT, POD, QUEUE_LABEL, WATCHED


def item(name: str, version: int, *, uid: str = "u1", queue: str = "q") -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "n",
            "name": name,
            "uid": uid,
            "resourceVersion": str(version),
            "labels": {QUEUE_LABEL: queue},
            "managedFields": [{"manager": "somebody"}],
        }
    }


def cache(changes: list[Change] | None = None) -> ObjectCache:
    heard = changes if changes is not None else []
    return ObjectCache(POD, heard.append, listed=lambda: None)


def test_the_newer_version_stays_whichever_came_first():
    for order in ([1, 2], [2, 1]):
        pods = cache()
        for version in order:
            pods.observe(item("a", version), deleted=False)
        kept = pods.get("n", "a")
        assert kept is not None
        assert kept["metadata"]["resourceVersion"] == "2"


def test_what_was_deleted_does_not_come_back_from_a_list_made_before():
    pods = cache()
    pods.observe(item("a", 1), deleted=False)
    pods.observe(item("a", 5), deleted=True)
    pods.replace_all("n", [item("a", 1)], "4")
    assert pods.get("n", "a") is None


def test_a_new_object_of_the_same_name_outlives_the_deletion_of_the_old_one():
    """Events of two objects arrive in any order: they have different queues in the informer."""
    pods = cache()
    pods.observe(item("a", 1, uid="old"), deleted=False)
    pods.observe(item("a", 7, uid="new"), deleted=False)
    pods.observe(item("a", 6, uid="old"), deleted=True)
    kept = pods.get("n", "a")
    assert kept is not None
    assert kept["metadata"]["uid"] == "new"


def test_what_a_list_lacks_is_gone_unless_it_is_newer_than_the_list():
    pods = cache()
    pods.observe(item("old", 3), deleted=False)
    pods.observe(item("young", 9), deleted=False)
    pods.replace_all("n", [], "8")
    assert pods.get("n", "old") is None
    assert pods.get("n", "young") is not None


def test_a_list_of_one_namespace_says_nothing_about_another():
    pods = cache()
    pods.observe(item("a", 3), deleted=False)
    pods.replace_all("other", [], "8")
    assert pods.get("n", "a") is not None
    assert pods.synced("other")
    assert not pods.synced("n")


def test_objects_are_found_by_the_queue_of_their_label_also_after_it_changed():
    pods = cache()
    pods.observe(item("b", 1), deleted=False)
    pods.observe(item("a", 2), deleted=False)
    assert [pod["metadata"]["name"] for pod in pods.of_queue("n", "q")] == ["a", "b"]
    pods.observe(item("a", 3, queue="other"), deleted=False)
    assert [pod["metadata"]["name"] for pod in pods.of_queue("n", "q")] == ["b"]
    assert [pod["metadata"]["name"] for pod in pods.of_queue("n", "other")] == ["a"]


def test_a_change_tells_old_and_new_and_a_repetition_tells_nothing():
    changes: list[Change] = []
    pods = cache(changes)
    pods.observe(item("a", 1), deleted=False)
    pods.observe(item("a", 1), deleted=False)
    pods.observe(item("a", 2), deleted=True)
    pods.observe(item("a", 2), deleted=True)
    assert [(change.old is None, change.new is None) for change in changes] == [
        (True, False),
        (False, True),
    ]


def test_the_record_of_field_owners_is_not_kept():
    pods = cache()
    pods.observe(item("a", 1), deleted=False)
    kept = pods.get("n", "a")
    assert kept is not None
    assert "managedFields" not in kept["metadata"]


@settings(max_examples=200)
@given(st.data())
def test_any_interleaving_of_watch_and_lists_ends_at_the_truth(data: st.DataObject):
    """A history of creations, changes and deletions; the watch delivers all of it in the order of each
    object, lists are taken at any moment and delivered at any later one."""
    history = data.draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=12))
    alive: dict[str, dict[str, Any]] = {}
    events: list[tuple[dict[str, Any], bool]] = []
    lists: list[tuple[int, list[dict[str, Any]]]] = []
    for version, name in enumerate(history, start=1):
        delete = name in alive and data.draw(st.booleans())
        uid = alive[name]["metadata"]["uid"] if name in alive else f"{name}{version}"
        body = item(name, version, uid=uid)
        events.append((body, delete))
        if delete:
            del alive[name]
        else:
            alive[name] = body
        if data.draw(st.booleans()):
            lists.append((version, list(alive.values())))
    lists.append((len(history), list(alive.values())))
    pods = cache()
    waiting: dict[str, list[tuple[dict[str, Any], bool]]] = {}
    for body, delete in events:
        waiting.setdefault(body["metadata"]["uid"], []).append((body, delete))
    while waiting or lists:
        choices = [*sorted(waiting), *(["list"] if lists else [])]
        choice = data.draw(st.sampled_from(choices))
        if choice == "list":
            version, items = lists.pop(0)
            pods.replace_all("n", items, str(version))
            continue
        body, delete = waiting[choice].pop(0)
        pods.observe(body, deleted=delete)
        if not waiting[choice]:
            del waiting[choice]
    shown = {body["metadata"]["name"]: body["metadata"]["resourceVersion"] for body in pods.all()}
    truth = {name: body["metadata"]["resourceVersion"] for name, body in alive.items()}
    assert shown == truth


def test_all_caches_are_synced_only_when_every_kind_was_listed_in_every_namespace():
    async def scenario() -> None:
        caches = Caches(["n", "m"])
        for kind in WATCHED:
            for scope in ("n", "m"):
                assert not caches.synced
                caches[kind].replace_all(scope, [], "1")
        assert caches.synced

    run_in_virtual_time(scenario())


def test_waiting_ends_with_the_change_or_with_the_deadline():
    async def scenario() -> None:
        caches = Caches(None)
        loop = asyncio.get_running_loop()
        deployments = caches[DEPLOYMENT]

        def later() -> None:
            deployments.observe(item("a", 1), deleted=False)

        loop.call_later(3, later)
        assert await caches.until(lambda: len(deployments) == 1, seconds=10)
        assert loop.time() == 3
        assert not await caches.until(lambda: len(deployments) == 2, seconds=10)
        assert loop.time() == 13

    run_in_virtual_time(scenario())
