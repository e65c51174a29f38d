-- A dead letter that is to live again.
SELECT row_id, id, type, attempt, due_ms, claimed_ms, worker_id, finished_ms, error
FROM runnerq_history WHERE id = :id AND queue = :queue AND state = 'dead_letter';
