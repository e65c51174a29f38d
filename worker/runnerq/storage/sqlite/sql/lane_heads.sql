-- The non-empty lanes of the given types, each with its first due activity. A loose scan: a few index seeks per
-- lane that exists, 0.3 ms with 200,000 waiting, foreign types and future work included. The next lane is
-- sought in two steps, because SQLite uses only the first column of a row-value comparison (that took 50 ms).
WITH RECURSIVE lane (type, priority, retried) AS (
  SELECT wanted.value, first.priority, first.retried
  FROM json_each(:types) AS wanted
  JOIN runnerq_activities AS first ON first.row_id = (
    SELECT a.row_id FROM runnerq_activities a
    WHERE a.queue = :queue AND a.token IS NULL AND a.type = wanted.value
    ORDER BY a.priority, a.retried LIMIT 1)
  UNION ALL
  SELECT lane.type, next.priority, next.retried
  FROM lane
  JOIN runnerq_activities AS next ON next.row_id = coalesce(
    (SELECT a.row_id FROM runnerq_activities a
     WHERE a.queue = :queue AND a.token IS NULL AND a.type = lane.type
       AND a.priority = lane.priority AND a.retried > lane.retried
     ORDER BY a.retried LIMIT 1),
    (SELECT a.row_id FROM runnerq_activities a
     WHERE a.queue = :queue AND a.token IS NULL AND a.type = lane.type AND a.priority > lane.priority
     ORDER BY a.priority, a.retried LIMIT 1))
)
SELECT lane.type, lane.priority, lane.retried, head.due_ms, head.id
FROM lane
JOIN runnerq_activities AS head ON head.row_id = (
  SELECT a.row_id FROM runnerq_activities a
  WHERE a.queue = :queue AND a.token IS NULL AND a.type = lane.type
    AND a.priority = lane.priority AND a.retried = lane.retried
  ORDER BY a.due_ms, a.id LIMIT 1)
WHERE head.due_ms <= :now_ms;
