-- One page of a live state, newest first; the cursor is the last id seen.
SELECT *, NULL AS finished_ms, NULL AS result, 'json' AS result_codec
FROM runnerq_activities
WHERE queue = :queue AND state = :state AND id < :before AND (:type IS NULL OR type = :type)
ORDER BY id DESC LIMIT :limit;
