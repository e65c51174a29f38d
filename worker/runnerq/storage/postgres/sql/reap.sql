-- Take back up to $2 activities of queue $1 whose deadline passed or whose engine is gone: unknown, stopped,
-- or silent for $3 ms. Walks owners, found by a loose index scan, not claims: a thousand live claims
-- cannot hide a dead one, and cost nothing. Skips what another reaper or an acknowledgement holds.
-- Attempts left: pending, ready now; else a dead letter. Either way the lost attempt is told in an event.
WITH RECURSIVE owner AS (
  (SELECT a.engine_id FROM {schema}.runnerq_activities a
   WHERE a.state = {processing} AND a.queue_id = $1 ORDER BY a.engine_id LIMIT 1)
  UNION ALL
  SELECT following.engine_id FROM owner
  CROSS JOIN LATERAL (
    SELECT a.engine_id FROM {schema}.runnerq_activities a
    WHERE a.state = {processing} AND a.queue_id = $1 AND a.engine_id > owner.engine_id
    ORDER BY a.engine_id LIMIT 1) following),
judged AS (
  SELECT owner.engine_id,
         e.engine_id IS NULL OR e.state = {engine_stopped}
           OR e.heartbeat_at <= now() - $3::bigint * interval '1 millisecond' AS gone
  FROM owner LEFT JOIN {schema}.runnerq_engines e
    ON e.engine_id = ANY (ARRAY[owner.engine_id]) AND e.queue_id = $1),
picked AS MATERIALIZED (
  SELECT taken.*
  FROM judged
  CROSS JOIN LATERAL (
    SELECT a.id, a.attempt, a.max_attempts, a.worker, a.claimed_at, a.due, a.deadline <= now() AS expired
    FROM {schema}.runnerq_activities a
    WHERE a.state = {processing} AND a.queue_id = $1 AND a.engine_id = judged.engine_id
      AND a.deadline <= CASE WHEN judged.gone THEN 'infinity' ELSE now() END
    ORDER BY a.deadline LIMIT $2 FOR UPDATE SKIP LOCKED) taken
  LIMIT $2),
lost AS MATERIALIZED (
  SELECT p.id, p.attempt, p.worker, p.claimed_at, p.due,
         p.max_attempts <> 0 AND p.attempt >= p.max_attempts AS used_up,
         convert_to(json_build_object('kind', 'worker_lost', 'type', 'WorkerLost', 'message', format(
           'worker lost: %s held attempt %s and %s', p.worker, p.attempt,
           CASE WHEN p.expired THEN 'its lease ended' ELSE 'its engine is gone' END))::text, 'UTF8') AS error
  FROM picked p),
gone AS (
  DELETE FROM {schema}.runnerq_activities a USING lost WHERE a.id = ANY (ARRAY[lost.id]) AND lost.used_up
  RETURNING a.*, lost.error AS new_error),
dead AS (
  INSERT INTO {schema}.runnerq_history
    (id, root_id, parent_id, created_at, due, claimed_at, timeout_ms, queue_id, type_id, attempt, max_attempts, depth,
     state, priority, codec, payload, headers, idempotency_key, worker, error)
  SELECT id, root_id, parent_id, created_at, due, claimed_at, timeout_ms, queue_id, type_id, attempt, max_attempts,
         depth, {dead_letter}, priority, codec, payload, headers, idempotency_key, worker, new_error
  FROM gone
  ON CONFLICT (id) DO NOTHING
  RETURNING id, type_id, attempt, payload, codec, error, worker),
back AS (
  UPDATE {schema}.runnerq_activities a
  SET state = {pending}, due = now(), token = NULL, engine_id = NULL, deadline = NULL, error = lost.error
  FROM lost WHERE a.id = ANY (ARRAY[lost.id]) AND NOT lost.used_up
  RETURNING a.id, a.type_id, a.attempt, a.codec, a.error, a.worker),
told AS (
  INSERT INTO {schema}.runnerq_events (activity_id, kind, state, attempt, worker, error, claimed_at, ready_at)
  SELECT lost.id, {event_claim_lost}, CASE WHEN lost.used_up THEN {dead_letter} ELSE {pending} END, lost.attempt,
         lost.worker, lost.error, lost.claimed_at, lost.due
  FROM lost)
SELECT id, type_id, attempt, {pending}::smallint AS state, ''::bytea AS payload, codec, error, worker, now() AS at FROM back
UNION ALL
SELECT id, type_id, attempt, {dead_letter}::smallint, payload, codec, error, worker, now() FROM dead
