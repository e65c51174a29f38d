-- What decides about an acknowledgement, of a live activity.
SELECT row_id, type, state, attempt, max_attempts, token, due_ms, claimed_ms, worker_id,
  acked_token, acked_digest, acked_state
FROM runnerq_activities WHERE id = :id AND queue = :queue;
