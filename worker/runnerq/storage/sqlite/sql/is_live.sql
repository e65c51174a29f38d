-- Whether an activity is stored and has not ended.
SELECT 1 FROM runnerq_activities WHERE id = :id AND queue = :queue;
