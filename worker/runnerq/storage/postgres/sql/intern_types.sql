-- The numbers of the types $2 of queue $1, given out to those that have none. Sorted by the caller, so
-- that two processes that start at once wait for each other instead of locking each other out.
INSERT INTO {schema}.runnerq_types (queue_id, name)
SELECT $1, wanted.name FROM unnest($2::text[]) AS wanted(name)
ON CONFLICT (queue_id, name) DO UPDATE SET name = EXCLUDED.name
RETURNING type_id, name
