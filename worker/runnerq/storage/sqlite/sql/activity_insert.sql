-- Store a new activity.
INSERT INTO runnerq_activities (
  id, queue, type, state, priority, due_ms, created_ms, max_attempts, timeout_ms,
  payload, codec, headers, idempotency_key, root_id, parent_id, depth)
VALUES (
  :id, :queue, :type, :state, :priority, :due_ms, :now_ms, :max_attempts, :timeout_ms,
  :payload, :codec, :headers, :key, :root_id, :parent_id, :depth);
