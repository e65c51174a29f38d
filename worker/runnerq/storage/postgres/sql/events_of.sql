-- The stored events of activity $1, in the order in which they happened.
SELECT activity_id, kind, at, state, attempt, worker, error, claimed_at, ready_at, run_ms, actor
FROM {schema}.runnerq_events WHERE activity_id = $1 ORDER BY seq
