-- Give a key to a new activity, in the transaction that inserts it.
INSERT INTO runnerq_idempotency (queue, type, key, activity_id, expires_ms)
VALUES (:queue, :type, :key, :id, :expires_ms)
ON CONFLICT (queue, type, key)
DO UPDATE SET activity_id = excluded.activity_id, expires_ms = excluded.expires_ms;
