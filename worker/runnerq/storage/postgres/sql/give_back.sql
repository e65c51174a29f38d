-- End attempts that (may) go on: retried, snoozed, released. Those not returned had lost their claim, or were
-- acknowledged before. Whether a retried one has attempts left is decided here, on the row itself:
-- `max_attempts` counts all runs and the current one is counted already; 0 is no limit.
-- Without attempts left it becomes a dead letter, else it waits again and remembers by which token and
-- outcome ($6) it was given back. A released one keeps its due time: it goes to its old place in the line.
-- As in finish.sql the state is not named: the token says enough.
WITH d AS MATERIALIZED (
  SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::bigint[], $5::bytea[], $6::bigint[], $7::bigint[])
    AS d(id, token, outcome, delay_ms, error, digest, run_ms)),
gone AS (
  DELETE FROM {schema}.runnerq_activities a USING d
  WHERE a.id = ANY (ARRAY[d.id]) AND a.token = d.token AND a.queue_id = $8
    AND d.outcome = {outcome_retried} AND a.max_attempts <> 0 AND a.attempt >= a.max_attempts
  RETURNING a.*, d.error AS new_error, d.run_ms),
dead AS (
  INSERT INTO {schema}.runnerq_history
    (id, token, root_id, parent_id, created_at, due, claimed_at, timeout_ms, run_ms, queue_id, type_id, attempt,
     max_attempts, depth, state, priority, outcome, codec, payload, headers, idempotency_key, worker, error)
  SELECT id, token, root_id, parent_id, created_at, due, claimed_at, timeout_ms, run_ms, queue_id, type_id, attempt,
         max_attempts, depth, {dead_letter}, priority, {outcome_retried}, codec, payload, headers, idempotency_key,
         worker, new_error
  FROM gone
  ON CONFLICT (id) DO NOTHING
  RETURNING id, token, attempt, type_id, worker),
ready AS (
  SELECT a.id, a.token, a.due, a.claimed_at, a.attempt, d.outcome, d.delay_ms, d.error, d.digest, d.run_ms
  FROM d JOIN {schema}.runnerq_activities a ON a.id = ANY (ARRAY[d.id]) AND a.token = d.token AND a.queue_id = $8
  WHERE d.outcome <> {outcome_retried} OR a.max_attempts = 0 OR a.attempt < a.max_attempts
  FOR UPDATE OF a),
back AS (
  UPDATE {schema}.runnerq_activities a
  SET state = CASE ready.outcome WHEN {outcome_retried} THEN {retrying} WHEN {outcome_snoozed} THEN {scheduled}
                                 ELSE {pending} END,
      due = CASE ready.outcome WHEN {outcome_released} THEN a.due
                               ELSE now() + ready.delay_ms * interval '1 millisecond' END,
      attempt = a.attempt - CASE ready.outcome WHEN {outcome_retried} THEN 0 ELSE 1 END,
      error = CASE ready.outcome WHEN {outcome_retried} THEN ready.error ELSE a.error END,
      token = NULL, engine_id = NULL, deadline = NULL, last_token = ready.token, last_digest = ready.digest
  FROM ready WHERE a.id = ANY (ARRAY[ready.id])
  RETURNING a.id, ready.token, a.state, a.type_id, a.worker, ready.attempt, ready.outcome, ready.claimed_at, ready.due,
            ready.run_ms, ready.error),
told AS (
  INSERT INTO {schema}.runnerq_events
    (activity_id, kind, state, attempt, worker, error, claimed_at, ready_at, run_ms)
  SELECT back.id, CASE back.outcome WHEN {outcome_retried} THEN {event_retried}
                                    WHEN {outcome_snoozed} THEN {event_snoozed} ELSE {event_released} END,
         back.state, back.attempt, back.worker,
         CASE back.outcome WHEN {outcome_retried} THEN back.error END, back.claimed_at, back.due, back.run_ms
  FROM back)
SELECT id, token, state, attempt, type_id, worker FROM back
UNION ALL
SELECT id, token, {dead_letter}::smallint, attempt, type_id, worker FROM dead
