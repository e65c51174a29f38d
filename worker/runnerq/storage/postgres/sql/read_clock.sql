-- The server's time, and the days that history has a partition for. Read once a minute at most.
SELECT now() AS now, coalesce(array_agg(right(c.relname, 8)) FILTER (WHERE c.relname IS NOT NULL), '{}') AS days
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = '{schema_literal}.runnerq_history'::regclass
