-- Back from history with all attempts again; it keeps its error until a new one replaces it.
INSERT INTO runnerq_activities (
  id, queue, type, state, priority, due_ms, created_ms, max_attempts, timeout_ms, payload, codec, headers,
  idempotency_key, root_id, parent_id, depth, worker_id, error)
SELECT
  id, queue, type, 'pending', priority, :now_ms, created_ms, max_attempts, timeout_ms, payload, codec, headers,
  idempotency_key, root_id, parent_id, depth, worker_id, error
FROM runnerq_history WHERE row_id = :row_id;
