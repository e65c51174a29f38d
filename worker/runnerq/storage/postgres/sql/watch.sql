-- Say that somebody watches queue $1's live stream for the next $2 ms.
INSERT INTO {schema}.runnerq_controls AS c (queue_id, name, until)
VALUES ($1, 'stream', now() + $2::bigint * interval '1 millisecond')
ON CONFLICT (queue_id, name) DO UPDATE SET until = greatest(c.until, EXCLUDED.until)
