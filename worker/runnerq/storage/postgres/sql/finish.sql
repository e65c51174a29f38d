-- End attempts that end their activity (completed or failed): out of the live table and into history, with
-- the result, in one statement. Those not returned had lost their claim, or were acknowledged before.
-- 10 us of server CPU per activity at batch 200 (benchmarks/postgres_paths.py), 15 at 400 partitions.
-- The token alone says whose row it is. To name the state as well would cost a hundredfold: by its
-- statistics nothing is processing, so the generic plan would join over the index of what is held.
-- `id = ANY (ARRAY[d.id])` is `id = d.id` to the server but not to its planner, which could otherwise join the
-- other way round: read the whole table by its key, and look up each row in the batch (Postgres 18 did, with
-- the statistics of an empty table). All statements here that look up a batch of ids do the same.
-- ON CONFLICT: an id stored twice (enqueued again in the very moment it ended) must not fail the batch.
WITH d AS (
  SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::smallint[], $5::bytea[], $6::text[], $7::bytea[],
                       $8::bigint[])
    AS d(id, token, outcome, state, result, result_codec, error, run_ms)),
gone AS (
  DELETE FROM {schema}.runnerq_activities a USING d
  WHERE a.id = ANY (ARRAY[d.id]) AND a.token = d.token AND a.queue_id = $9
  RETURNING a.id, a.token, a.root_id, a.parent_id, a.created_at, a.due, a.claimed_at, a.timeout_ms, a.queue_id,
            a.type_id, a.attempt, a.max_attempts, a.depth, a.priority, a.codec, a.payload, a.headers,
            a.idempotency_key, a.worker, d.outcome, d.state, d.result, d.result_codec, d.error, d.run_ms)
INSERT INTO {schema}.runnerq_history
  (id, token, root_id, parent_id, created_at, due, claimed_at, timeout_ms, run_ms, queue_id, type_id, attempt,
   max_attempts, depth, state, priority, outcome, codec, payload, headers, idempotency_key, worker, result,
   result_codec, error)
SELECT id, token, root_id, parent_id, created_at, due, claimed_at, timeout_ms, run_ms, queue_id, type_id, attempt,
       max_attempts, depth, state, priority, outcome, codec, payload, headers, idempotency_key, worker, result,
       result_codec, error
FROM gone
ON CONFLICT (id) DO NOTHING
RETURNING id, token
