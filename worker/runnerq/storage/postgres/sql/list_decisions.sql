-- Decisions of the last day about queue $1 (pool $2, or all), newest first.
SELECT pool, at, from_replicas, to_replicas, reason, summary, detail
FROM {schema}.runnerq_decisions
WHERE queue_id = $1 AND at >= now() - interval '24 hours' AND ($2::text IS NULL OR pool = $2)
ORDER BY at DESC, seq DESC LIMIT $3
