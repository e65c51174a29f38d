-- Every queue that holds anything, by loose scans.
WITH RECURSIVE
  live (queue) AS (
    SELECT min(queue) FROM runnerq_activities
    UNION ALL
    SELECT (SELECT min(queue) FROM runnerq_activities a WHERE a.queue > live.queue)
    FROM live WHERE live.queue IS NOT NULL),
  ended (queue) AS (
    SELECT min(queue) FROM runnerq_history
    UNION ALL
    SELECT (SELECT min(queue) FROM runnerq_history h WHERE h.queue > ended.queue)
    FROM ended WHERE ended.queue IS NOT NULL)
SELECT queue FROM (
  SELECT queue FROM live UNION SELECT queue FROM ended UNION SELECT queue FROM runnerq_engines)
WHERE queue IS NOT NULL ORDER BY queue;
