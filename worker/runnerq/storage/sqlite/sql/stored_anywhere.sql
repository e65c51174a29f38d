-- Whether this very id was stored before: makes a repeated enqueue harmless. Two primary-key probes.
SELECT 1
WHERE EXISTS (SELECT 1 FROM runnerq_activities WHERE id = :id)
   OR EXISTS (SELECT 1 FROM runnerq_history WHERE id = :id);
