-- Note a scaling decision, and forget those older than a day.
WITH old AS (
  DELETE FROM {schema}.runnerq_decisions WHERE queue_id = $1 AND at < now() - interval '24 hours')
INSERT INTO {schema}.runnerq_decisions (queue_id, pool, at, from_replicas, to_replicas, reason, summary, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
