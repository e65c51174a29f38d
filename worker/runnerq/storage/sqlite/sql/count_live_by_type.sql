-- Live states per type. A loose scan finds the (type, state) pairs, each is counted up to the bound.
WITH RECURSIVE pair (type, state) AS (
  SELECT * FROM (
    SELECT type, state FROM runnerq_activities WHERE queue = :queue ORDER BY type, state LIMIT 1)
  UNION ALL
  SELECT next.type, next.state
  FROM pair
  JOIN runnerq_activities AS next ON next.row_id = coalesce(
    (SELECT a.row_id FROM runnerq_activities a
     WHERE a.queue = :queue AND a.type = pair.type AND a.state > pair.state
     ORDER BY a.state LIMIT 1),
    (SELECT a.row_id FROM runnerq_activities a
     WHERE a.queue = :queue AND a.type > pair.type
     ORDER BY a.type, a.state LIMIT 1))
)
SELECT pair.type, pair.state, (
  SELECT count(*) FROM (
    SELECT 1 FROM runnerq_activities a
    WHERE a.queue = :queue AND a.type = pair.type AND a.state = pair.state LIMIT :bound)) AS n
FROM pair;
