-- Every non-empty lane of a queue with its head, due or not, and how much of it is due, due soon and later:
-- one loose scan over runnerq_lanes (see lane_heads.sql), then counts that stop at their bound.
WITH RECURSIVE lane (type, priority, retried) AS (
  SELECT * FROM (
    SELECT type, priority, retried FROM runnerq_activities
    WHERE queue = :queue AND token IS NULL ORDER BY type, priority, retried LIMIT 1)
  UNION ALL
  SELECT next.type, next.priority, next.retried
  FROM lane
  JOIN runnerq_activities AS next ON next.row_id = coalesce(
    (SELECT a.row_id FROM runnerq_activities a
     WHERE a.queue = :queue AND a.token IS NULL AND a.type = lane.type
       AND a.priority = lane.priority AND a.retried > lane.retried
     ORDER BY a.retried LIMIT 1),
    (SELECT a.row_id FROM runnerq_activities a
     WHERE a.queue = :queue AND a.token IS NULL AND a.type = lane.type AND a.priority > lane.priority
     ORDER BY a.priority, a.retried LIMIT 1),
    (SELECT a.row_id FROM runnerq_activities a
     WHERE a.queue = :queue AND a.token IS NULL AND a.type > lane.type
     ORDER BY a.type, a.priority, a.retried LIMIT 1))
)
SELECT lane.type,
  (SELECT min(a.due_ms) FROM runnerq_activities a
   WHERE a.queue = :queue AND a.token IS NULL AND a.type = lane.type
     AND a.priority = lane.priority AND a.retried = lane.retried) AS head_due_ms,
  (SELECT count(*) FROM (
    SELECT 1 FROM runnerq_activities a
    WHERE a.queue = :queue AND a.token IS NULL AND a.type = lane.type AND a.priority = lane.priority
      AND a.retried = lane.retried AND a.due_ms <= :now_ms LIMIT :bound)) AS due,
  (SELECT count(*) FROM (
    SELECT 1 FROM runnerq_activities a
    WHERE a.queue = :queue AND a.token IS NULL AND a.type = lane.type AND a.priority = lane.priority
      AND a.retried = lane.retried AND a.due_ms > :now_ms AND a.due_ms <= :now_ms + :horizon_ms
    LIMIT :bound)) AS due_soon,
  (SELECT count(*) FROM (
    SELECT 1 FROM runnerq_activities a
    WHERE a.queue = :queue AND a.token IS NULL AND a.type = lane.type AND a.priority = lane.priority
      AND a.retried = lane.retried AND a.due_ms > :now_ms LIMIT :bound)) AS future
FROM lane;
