-- A count that stops at its bound: never proportional to the history.
SELECT count(*) AS n FROM (
  SELECT 1 FROM runnerq_history WHERE queue = :queue AND state = :state LIMIT :bound);
