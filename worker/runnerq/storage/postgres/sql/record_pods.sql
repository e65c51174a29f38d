-- Replace what was known of queue $1's pods, in one step: readers see the old list or the new one.
WITH gone AS (
  DELETE FROM {schema}.runnerq_pods p
  WHERE p.queue_id = $1 AND NOT EXISTS (
    SELECT FROM unnest($2::text[], $3::text[]) AS n(pool, name) WHERE n.pool = p.pool AND n.name = p.name))
INSERT INTO {schema}.runnerq_pods (queue_id, pool, name, phase, detail, since)
SELECT $1, n.pool, n.name, n.phase, n.detail, n.since
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[]) AS n(pool, name, phase, detail, since)
ON CONFLICT (queue_id, pool, name) DO UPDATE
SET phase = EXCLUDED.phase, detail = EXCLUDED.detail, since = EXCLUDED.since
