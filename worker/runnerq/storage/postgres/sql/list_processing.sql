-- A page of what is being processed in queue $1 (types $2), newest first, older than $3. Reads all claims of
-- the queue: there are never more than the workers have slots.
SELECT a.id, a.type_id, a.state, a.priority, a.payload, a.codec, a.attempt, a.max_attempts, a.timeout_ms,
       a.created_at, a.due, a.claimed_at, a.deadline, NULL::timestamptz AS finished_at, a.worker,
       a.idempotency_key, NULL::bytea AS result, NULL::text AS result_codec, a.error, a.headers, a.root_id,
       a.parent_id
FROM {schema}.runnerq_activities a
WHERE a.state = {processing} AND a.queue_id = $1 AND a.type_id = ANY ($2::int[]) AND a.id < $3
ORDER BY a.id DESC LIMIT $4
