-- All of an ended activity.
SELECT *, NULL AS deadline_ms FROM runnerq_history WHERE id = :id AND queue = :queue;
