"""What the operator may do is what it does: its roles against everything it did in all tests before."""

from __future__ import annotations

from tests.cluster.audit import AuditEvent
from tests.cluster.e2e.installation import Installation


def what(event: AuditEvent) -> tuple[str, str, str]:
    resource = f"{event.resource}/{event.subresource}" if event.subresource else event.resource
    return event.group, resource, event.verb


def test_nothing_was_refused(installation: Installation):
    refused = [event for event in installation.requests() if event.code in (401, 403)]
    assert not refused, [(what(event), event.path) for event in refused[:10]]


def test_secrets_were_only_ever_read_by_name(installation: Installation):
    secrets = [event for event in installation.requests() if event.resource == "secrets"]
    assert secrets
    assert all(event.verb == "get" and event.name for event in secrets)


def test_the_roles_grant_what_is_used_and_nothing_else(installation: Installation):
    requests = [event for event in installation.requests() if event.resource]
    used = {what(event) for event in requests}
    # Server-side apply is logged as a patch; where it makes the object it needs `create` too.
    used |= {
        (group, resource, "create")
        for event in requests
        for group, resource, verb in [what(event)]
        if verb == "patch" and event.code == 201
    }
    granted = installation.granted()
    # The log is written when a request ends, and a watch ends after minutes.
    unfinished = {each for each in granted if each[2] == "watch"}
    assert used - granted == set()
    assert granted - used - unfinished == set()


def test_only_its_own_lease_was_touched(installation: Installation):
    leases = [event for event in installation.requests() if event.resource == "leases"]
    assert {event.name for event in leases if event.verb != "create"} == {"runnerq"}
    assert {event.namespace for event in leases} == {"runnerq-system"}
