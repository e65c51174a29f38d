-- Tables, views and indexes of schema $1, for `runnerq migrate validate`.
SELECT c.relname AS name, coalesce(i.indisvalid, true) AS valid
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_index i ON i.indexrelid = c.oid
WHERE n.nspname = $1 AND c.relname LIKE 'runnerq\_%'
