-- Who holds a key, and in which state. A key that has expired, or whose activity is gone, is free.
SELECT k.activity_id AS id, coalesce(live.state, ended.state) AS state
FROM runnerq_idempotency k
LEFT JOIN runnerq_activities live ON live.id = k.activity_id
LEFT JOIN runnerq_history ended ON ended.id = k.activity_id
WHERE k.queue = :queue AND k.type = :type AND k.key = :key
  AND (k.expires_ms IS NULL OR k.expires_ms > :now_ms)
  AND coalesce(live.state, ended.state) IS NOT NULL;
