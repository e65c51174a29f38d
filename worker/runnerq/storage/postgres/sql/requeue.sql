-- Bring dead letters $2 of queue $1 back to life: pending, ready now, all attempts again, the same id and key.
-- History forgets the end, so it is told in an event, with the attempt that led to it, unless that was told
-- as a lost claim ($3: who asked for it). Ids not returned are not dead letters.
WITH risen AS (
  DELETE FROM {schema}.runnerq_history h
  USING unnest($2::uuid[]) AS wanted(id)
  WHERE h.id = ANY (ARRAY[wanted.id]) AND h.queue_id = $1 AND h.state = {dead_letter}
  RETURNING h.*),
alive AS (
  INSERT INTO {schema}.runnerq_activities
    (queue_id, id, type_id, priority, state, created_at, due, timeout_ms, max_attempts, codec, payload, headers,
     root_id, parent_id, depth, idempotency_key, worker, error)
  SELECT queue_id, id, type_id, priority, {pending}, created_at, now(), timeout_ms, max_attempts, codec, payload,
         headers, root_id, parent_id, depth, idempotency_key, worker, error
  FROM risen
  RETURNING id, type_id, worker),
told AS (
  INSERT INTO {schema}.runnerq_events
    (activity_id, at, kind, state, attempt, worker, error, claimed_at, ready_at, run_ms, actor)
  SELECT * FROM (
    SELECT id, finished_at, {event_dead_lettered}, {dead_letter}, attempt, worker, error,
           CASE WHEN outcome IS NOT NULL THEN claimed_at END, CASE WHEN outcome IS NOT NULL THEN due END, run_ms,
           NULL
    FROM risen
    UNION ALL
    SELECT id, now(), {event_requeued}, {pending}, 0, worker, NULL, NULL, NULL, NULL, $3::text FROM risen) steps
  ORDER BY 1, 3)
SELECT id, type_id, worker, now() AS at FROM alive
