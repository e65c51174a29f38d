-- The number of queue $1, given out if it has none. The no-op update makes a concurrent insert of the
-- same name visible here; it happens once per process and name.
INSERT INTO {schema}.runnerq_queues (name) VALUES ($1)
ON CONFLICT (name) DO UPDATE SET name = EXCLUDED.name
RETURNING queue_id
