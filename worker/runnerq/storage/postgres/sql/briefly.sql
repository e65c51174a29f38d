-- What watchers are told of activities $1 that have just changed; asked only while somebody watches.
SELECT a.id, a.type_id, a.state, a.attempt, a.worker, a.error, now() AS at
FROM unnest($1::uuid[]) AS d(id) JOIN {schema}.runnerq_activities a ON a.id = ANY (ARRAY[d.id])
UNION ALL
SELECT h.id, h.type_id, h.state, h.attempt, h.worker, h.error, h.finished_at
FROM unnest($1::uuid[]) AS d(id) JOIN {schema}.runnerq_history h ON h.id = ANY (ARRAY[d.id])
