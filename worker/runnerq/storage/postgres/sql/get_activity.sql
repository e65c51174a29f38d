-- One activity of queue $1, alive or ended. One snapshot sees it in exactly one of the tables.
SELECT a.id, a.type_id, a.state, a.priority, a.payload, a.codec, a.attempt, a.max_attempts, a.timeout_ms,
       a.created_at, a.due, a.claimed_at, a.deadline, NULL::timestamptz AS finished_at, a.worker,
       a.idempotency_key, NULL::bytea AS result, NULL::text AS result_codec, a.error, a.headers, a.root_id,
       a.parent_id
FROM {schema}.runnerq_activities a WHERE a.id = $2 AND a.queue_id = $1
UNION ALL
SELECT h.id, h.type_id, h.state, h.priority, h.payload, h.codec, h.attempt, h.max_attempts, h.timeout_ms,
       h.created_at, h.due, h.claimed_at, NULL::timestamptz AS deadline, h.finished_at, h.worker,
       h.idempotency_key, h.result, h.result_codec, h.error, h.headers, h.root_id, h.parent_id
FROM {schema}.runnerq_history h WHERE h.id = $2 AND h.queue_id = $1
