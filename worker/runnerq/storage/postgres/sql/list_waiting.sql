-- A page of waiting activities of state $2 and types $1, newest first, older than $3. Per type one range of
-- the index (type, state, id), then the newest of those: a rare type among a million others costs the
-- same. The constant list of states lets the planner use the partial index; state and id are
-- compared and ordered as a pair, because no other index can serve that.
SELECT a.id, a.type_id, a.state, a.priority, a.payload, a.codec, a.attempt, a.max_attempts, a.timeout_ms,
       a.created_at, a.due, a.claimed_at, a.deadline, NULL::timestamptz AS finished_at, a.worker,
       a.idempotency_key, NULL::bytea AS result, NULL::text AS result_codec, a.error, a.headers, a.root_id,
       a.parent_id
FROM (
  SELECT page.id
  FROM unnest($1::int[]) AS wanted(type_id)
  CROSS JOIN LATERAL (
    SELECT w.id FROM {schema}.runnerq_activities w
    WHERE w.type_id = wanted.type_id AND (w.state, w.id) < ($2, $3) AND w.state >= $2 AND w.state IN ({waiting}) AND w.id < $3
    ORDER BY w.state DESC, w.id DESC LIMIT $4) page
  ORDER BY page.id DESC LIMIT $4) newest
JOIN {schema}.runnerq_activities a ON a.id = ANY (ARRAY[newest.id])
ORDER BY newest.id DESC
