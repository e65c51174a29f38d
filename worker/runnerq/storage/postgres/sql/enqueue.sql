-- Store activities that carry no idempotency key; the ids that were new. 8 us of server CPU per activity at 200
-- a call, 200 us for a single one (its commit); COPY takes 5 to 6 in a large call (enqueue.py).
-- An id that was stored before (this call was repeated) is left alone, whether it still waits (ON
-- CONFLICT) or has ended (`ended`). Constant bounds on the days of the ids keep the look at history to one or
-- two partitions, where ids made just now hit a handful of cached pages.
WITH ended AS MATERIALIZED (
  SELECT h.id FROM {schema}.runnerq_history h
  WHERE h.id = ANY ($2::uuid[]) AND h.id BETWEEN '{first_id}' AND '{last_id}')
INSERT INTO {schema}.runnerq_activities
  (queue_id, id, type_id, priority, state, due, timeout_ms, max_attempts, codec, payload, headers,
   root_id, parent_id, depth)
SELECT $1, d.id, d.type_id, d.priority,
       CASE WHEN ready.at > now() THEN {scheduled} ELSE {pending} END, ready.at,
       d.timeout_ms, d.max_attempts, d.codec, d.payload, d.headers, d.root_id, d.parent_id, d.depth
FROM unnest($2::uuid[], $3::int[], $4::smallint[], $5::bigint[], $6::timestamptz[], $7::bigint[], $8::int[],
            $9::text[], $10::bytea[], $11::bytea[], $12::uuid[], $13::uuid[], $14::int[])
  AS d(id, type_id, priority, delay_ms, run_at, timeout_ms, max_attempts, codec, payload, headers,
       root_id, parent_id, depth)
CROSS JOIN LATERAL (
  SELECT greatest(now(), coalesce(d.run_at, now() + d.delay_ms * interval '1 millisecond')) AS at) ready
WHERE d.id NOT IN (SELECT ended.id FROM ended)
ON CONFLICT (id) DO NOTHING
RETURNING id
