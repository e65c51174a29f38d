"""Every condition type, every reason that may stand in one, and every event: the operator's vocabulary.

Part of the API: people write alerts on these words. docs/runnerqueue.md explains each, and a test refuses
a condition or an event that is not listed here.
"""

from __future__ import annotations

from typing import Final

CONDITIONS: Final[dict[str, dict[str, str]]] = {
    "Ready": {
        "AllReady": "Backend, schema and template are good and every pool has the workers decided on.",
        "WorkersNotReady": "Fewer workers are ready than decided on; the message names the pools.",
        "BackendNotReady": "The backend cannot be used; see BackendReachable and SchemaCompatible.",
        "TemplateNotValid": "A pod template was refused; see TemplateValid.",
        "NotObservedYet": "The first pass has not ended.",
    },
    "Reconciling": {
        "PoolsChanging": "Workers are being started, stopped or replaced.",
        "UpToDate": "Nothing is being changed.",
        "NotObservedYet": "The first pass has not ended.",
    },
    "Stalled": {
        "NeedsAttention": "Nothing will get better without a person; the message says what to do.",
        "PodsUnschedulable": "Workers cannot start: no room, no image, or a crash at start.",
        "Progressing": "Nothing needs a person.",
        "NotObservedYet": "The first pass has not ended.",
    },
    "BackendReachable": {
        "Answering": "The last read of the demand succeeded.",
        "NoAnswer": "The backend did not answer; replicas are held.",
        "SecretNotFound": "The Secret with the URL, or its key, does not exist.",
        "UrlInvalid": "The URL cannot be used; the message says why.",
        "BackendUnsupported": "This version has no such backend.",
        "NotObservedYet": "The first pass has not ended.",
    },
    "SchemaCompatible": {
        "UpToDate": "The schema is the one this version works on.",
        "Mismatch": "The schema is newer, or its migration failed; the message says which.",
        "NotObservedYet": "The backend has not answered yet.",
    },
    "TemplateValid": {
        "Accepted": "Every pool's pod template was accepted.",
        "Refused": "A pod template was refused; the message has the API server's own words.",
        "NotObservedYet": "The first pass has not ended.",
    },
    "ScalingActive": {
        "Deciding": "Decisions are made on fresh demand and acted on.",
        "DryRun": "Decisions are explained but not acted on: scaling.mode is DryRun.",
        "Disabled": "The replicas are set by hand: scaling.mode is Disabled.",
        "Paused": "spec.paused is Scaling.",
        "DemandUnknown": "The demand could not be read; replicas are held or the fallback is used.",
        "NotObservedYet": "The first pass has not ended.",
    },
    "ScalingLimited": {
        "MaxReplicas": "A pool wants more than its maxReplicas.",
        "QueueBudget": "The pools want more than the queue's maxReplicas together.",
        "BackendConnections": "More workers would use more than backend.postgres.maxConnections.",
        "Unschedulable": "Workers cannot be placed; no more are asked for meanwhile.",
        "WithinLimits": "Nothing limits the decisions.",
        "NotObservedYet": "The first pass has not ended.",
    },
    "SLOFeasible": {
        "Feasible": "Workers start fast enough for slo.maxWaitSeconds.",
        "StartupTooSlow": "A worker takes longer to start than the SLO allows to wait, and minReplicas "
        "is 0; the message says which minReplicas would do.",
        "NotObservedYet": "No start has been measured yet.",
    },
    "SLOMet": {
        "WithinSLO": "Nothing has waited longer than slo.maxWaitSeconds.",
        "WaitTooLong": "The oldest claimable activity has waited longer; the message names its type.",
        "DemandUnknown": "The demand could not be read.",
        "NotObservedYet": "The first pass has not ended.",
    },
    "CoverageComplete": {
        "AllServed": "Every waiting and every required type has a pool that serves it.",
        "TypesWithoutWorkers": "Some type has no pool, or none of its workers registers it; the message "
        "names the types.",
        "Ignored": "coverage.policy is Ignore.",
        "DemandUnknown": "The demand could not be read.",
        "NotObservedYet": "The first pass has not ended.",
    },
    "Paused": {
        "ScalingPaused": "spec.paused is Scaling.",
        "NotPaused": "spec.paused is None.",
    },
    "FallbackActive": {
        "DemandUnknown": "The demand could not be read for long; scaling.fallback holds the replicas.",
        "NotNeeded": "Decisions are made on demand.",
    },
}
"""Condition type -> reason -> what it means."""

POOL_CONDITIONS: Final = (
    "Ready",
    "TemplateValid",
    "ScalingActive",
    "ScalingLimited",
    "SLOFeasible",
    "SLOMet",
    "FallbackActive",
)
"""Those that a RunnerWorkerPool carries for itself; a RunnerQueue carries all, over its pools."""

EVENTS: Final[dict[str, str]] = {
    "ScaledUp": "More workers were asked for.",
    "ScaledDown": "Fewer workers were asked for; the ones that left were idle or their drain time was up.",
    "ActivatedFromZero": "The first workers of a pool at zero were asked for.",
    "ScaledToZero": "Nothing was waiting, running or due for long enough; the last workers left.",
    "ScalingHeld": "The demand could not be read; replicas stay as they are.",
    "FallbackEntered": "The demand could not be read for long; scaling.fallback holds the replicas.",
    "FallbackLeft": "The demand can be read again.",
    "SLOBreached": "An activity has waited longer than slo.maxWaitSeconds.",
    "SLORecovered": "Nothing waits longer than slo.maxWaitSeconds any more.",
    "VictimMismatch": "Another worker left than the one that was drained for it.",
    "CoverageLost": "A waiting or required type has no worker that serves it.",
    "CoverageRestored": "Every type has workers again.",
    "TemplateInvalid": "A pod template was refused.",
    "ManualScaleIgnored": "Replicas were set by hand on a pool whose scaling.mode is not Disabled.",
}
"""Event reason -> what it means."""
