-- Move a live activity into history, with its end. The delete follows in the same transaction.
INSERT INTO runnerq_history (
  id, queue, type, state, priority, due_ms, created_ms, attempt, max_attempts, timeout_ms, payload, codec,
  headers, idempotency_key, root_id, parent_id, depth, worker_id, claimed_ms, finished_ms,
  result, result_codec, error, acked_token, acked_digest, acked_state)
SELECT
  id, queue, type, :state, priority, due_ms, created_ms, attempt, max_attempts, timeout_ms, payload, codec,
  headers, idempotency_key, root_id, parent_id, depth, worker_id, claimed_ms, :now_ms,
  :result, :result_codec, :error, :acked_token, :acked_digest, :state
FROM runnerq_activities WHERE row_id = :row_id;
