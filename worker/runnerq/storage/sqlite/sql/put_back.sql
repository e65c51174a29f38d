-- An attempt ended and the activity waits again. `worker_id` and the claim's instant keep naming the last
-- attempt; an error is kept until another replaces it.
UPDATE runnerq_activities
SET state = :state,
    due_ms = :due_ms,
    attempt = :attempt,
    retried = min(:attempt, 7),
    token = NULL,
    engine_id = NULL,
    deadline_ms = NULL,
    error = coalesce(:error, error),
    acked_token = coalesce(:acked_token, acked_token),
    acked_digest = coalesce(:acked_digest, acked_digest),
    acked_state = coalesce(:acked_state, acked_state)
WHERE row_id = :row_id;
