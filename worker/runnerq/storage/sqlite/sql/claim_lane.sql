-- Hand out the first `limit` due activities of one lane. The token is drawn per row; the lease covers the
-- timeout. RETURNING has no order: the caller sorts by (due_ms, id).
UPDATE runnerq_activities
SET state = 'processing',
    attempt = attempt + 1,
    token = randomblob(16),
    engine_id = :engine_id,
    worker_id = :worker_id,
    claimed_ms = :now_ms,
    deadline_ms = :now_ms + max(:lease_floor_ms, timeout_ms + :lease_margin_ms)
WHERE row_id IN (
  SELECT row_id FROM runnerq_activities
  WHERE queue = :queue AND token IS NULL AND type = :type
    AND priority = :priority AND retried = :retried AND due_ms <= :now_ms
  ORDER BY due_ms, id LIMIT :limit)
RETURNING id, token, queue, type, payload, codec, priority, attempt, max_attempts, timeout_ms,
  created_ms, due_ms, claimed_ms, deadline_ms, headers, root_id, parent_id, depth, worker_id;
