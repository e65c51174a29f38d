-- One page of an ended state, newest first; the cursor is the last id seen.
SELECT *, NULL AS deadline_ms
FROM runnerq_history
WHERE queue = :queue AND state = :state AND id < :before AND (:type IS NULL OR type = :type)
ORDER BY id DESC LIMIT :limit;
