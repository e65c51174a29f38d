-- How an activity ended; no row while it has not.
SELECT id, state, result, result_codec, error, finished_ms
FROM runnerq_history WHERE id = :id AND queue = :queue;
