-- Whether an awaited activity is in the history: one probe of its key.
SELECT 1 FROM runnerq_history WHERE id = :id;
