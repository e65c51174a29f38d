-- All of a live activity.
SELECT *, NULL AS finished_ms, NULL AS result, 'json' AS result_codec
FROM runnerq_activities WHERE id = :id AND queue = :queue;
