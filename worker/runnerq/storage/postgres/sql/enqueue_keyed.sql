-- Store activities that carry idempotency keys, each key once in this call; the ids that were new, and
-- of the others who holds the key as far as this statement saw.
-- The upsert of the key is the decision: it waits for a concurrent holder of the same key to commit or
-- fail, so fifty callers agree on one id. It moves the key only where the behaviour allows it:
-- $17 always, or expired, or $18 and the holder ended without a result. A holder that is not in history
-- is alive: retention deletes an activity and its key together.
WITH d AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::int[], $4::smallint[], $5::bigint[], $6::timestamptz[], $7::bigint[],
                       $8::int[], $9::text[], $10::bytea[], $11::bytea[], $12::uuid[], $13::uuid[], $14::int[],
                       $15::uuid[], $16::bytea[], $17::boolean[], $18::boolean[], $19::bigint[])
    AS d(id, type_id, priority, delay_ms, run_at, timeout_ms, max_attempts, codec, payload, headers,
         root_id, parent_id, depth, digest, key, always, on_failure, ttl_ms)),
repeated AS MATERIALIZED (
  SELECT a.id FROM d JOIN {schema}.runnerq_activities a ON a.id = ANY (ARRAY[d.id])
  UNION ALL
  SELECT h.id FROM {schema}.runnerq_history h WHERE h.id = ANY ($2::uuid[]) AND h.id BETWEEN '{first_id}' AND '{last_id}'),
held AS (
  INSERT INTO {schema}.runnerq_idempotency AS k (type_id, digest, activity_id, expires_at)
  SELECT d.type_id, d.digest, d.id, now() + d.ttl_ms * interval '1 millisecond'
  FROM d WHERE d.id NOT IN (SELECT repeated.id FROM repeated)
  ORDER BY d.type_id, d.digest
  ON CONFLICT (type_id, digest) DO UPDATE
    SET activity_id = EXCLUDED.activity_id, expires_at = EXCLUDED.expires_at
    WHERE k.expires_at <= now()
       OR EXISTS (SELECT 1 FROM d WHERE d.id = EXCLUDED.activity_id AND (d.always OR (d.on_failure AND EXISTS (
            SELECT 1 FROM {schema}.runnerq_history h
            WHERE h.id = k.activity_id AND h.state IN ({failed}, {dead_letter}, {cancelled})))))
  RETURNING k.activity_id),
stored AS (
  INSERT INTO {schema}.runnerq_activities
    (queue_id, id, type_id, priority, state, due, timeout_ms, max_attempts, codec, payload, headers,
     root_id, parent_id, depth, idempotency_key)
  SELECT $1, d.id, d.type_id, d.priority,
         CASE WHEN ready.at > now() THEN {scheduled} ELSE {pending} END, ready.at,
         d.timeout_ms, d.max_attempts, d.codec, d.payload, d.headers, d.root_id, d.parent_id, d.depth, d.key
  FROM d JOIN held ON held.activity_id = d.id
  CROSS JOIN LATERAL (
    SELECT greatest(now(), coalesce(d.run_at, now() + d.delay_ms * interval '1 millisecond')) AS at) ready
  ON CONFLICT (id) DO NOTHING
  RETURNING id)
SELECT d.id, d.id IN (SELECT stored.id FROM stored) AS created,
       d.id IN (SELECT repeated.id FROM repeated) AS repeated
FROM d
