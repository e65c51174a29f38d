-- The non-empty lanes of the types $1, each with its first activity, due or not, and the server's time.
-- A loose index scan: from one lane the index is entered again at the next, so the cost is two probes per
-- lane, whatever the lanes hold. DISTINCT would read every waiting row. A head that is not due yet tells
-- when the lane will be.
WITH RECURSIVE lane AS (
  SELECT wanted.type_id, top.priority, top.retried
  FROM unnest($1::int[]) AS wanted(type_id)
  CROSS JOIN LATERAL (
    SELECT a.priority, a.retried FROM {schema}.runnerq_activities a
    WHERE a.type_id = wanted.type_id AND a.state IN ({waiting})
    ORDER BY a.priority DESC, a.retried DESC LIMIT 1) top
  UNION ALL
  SELECT lane.type_id, below.priority, below.retried
  FROM lane
  CROSS JOIN LATERAL (
    SELECT a.priority, a.retried FROM {schema}.runnerq_activities a
    WHERE a.type_id = lane.type_id AND a.state IN ({waiting})
      AND (a.priority, a.retried) < (lane.priority, lane.retried)
    ORDER BY a.priority DESC, a.retried DESC LIMIT 1) below)
SELECT lane.type_id, lane.priority, lane.retried, head.due, head.id, now() AS now
FROM lane
CROSS JOIN LATERAL (
  SELECT a.due, a.id FROM {schema}.runnerq_activities a
  WHERE a.type_id = lane.type_id AND a.priority = lane.priority AND a.retried = lane.retried
    AND a.state IN ({waiting})
  ORDER BY a.due, a.id LIMIT 1) head
