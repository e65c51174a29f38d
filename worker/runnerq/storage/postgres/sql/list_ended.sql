-- A page of history: final state $2, types $1, newest first, older than $3. Partitions are ranges of the id,
-- so they are read newest first and only as far as needed. State and id are compared and ordered as a pair,
-- because only the index (type, state, id) can serve that: by id alone the planner may walk the whole key.
SELECT h.id, h.type_id, h.state, h.priority, h.payload, h.codec, h.attempt, h.max_attempts, h.timeout_ms,
       h.created_at, h.due, h.claimed_at, NULL::timestamptz AS deadline, h.finished_at, h.worker,
       h.idempotency_key, h.result, h.result_codec, h.error, h.headers, h.root_id, h.parent_id
FROM (
  SELECT page.id
  FROM unnest($1::int[]) AS wanted(type_id)
  CROSS JOIN LATERAL (
    SELECT e.id FROM {schema}.runnerq_history e
    WHERE e.type_id = wanted.type_id AND (e.state, e.id) < ($2, $3) AND e.state >= $2 AND e.id < $3
    ORDER BY e.state DESC, e.id DESC LIMIT $4) page
  ORDER BY page.id DESC LIMIT $4) newest
JOIN {schema}.runnerq_history h ON h.id = ANY (ARRAY[newest.id])
ORDER BY newest.id DESC
