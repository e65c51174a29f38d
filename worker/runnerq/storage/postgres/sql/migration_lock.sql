-- Try to be the only one who migrates schema $1; held until the transaction ends, so it also holds
-- through a pooler. Never waits inside the server.
SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))
