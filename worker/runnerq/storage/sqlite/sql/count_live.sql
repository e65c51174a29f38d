-- A count that stops at its bound: never proportional to a backlog.
SELECT count(*) AS n FROM (
  SELECT 1 FROM runnerq_activities WHERE queue = :queue AND state = :state LIMIT :bound);
