-- Keep a scaling decision.
INSERT INTO runnerq_decisions (queue, pool, at_ms, decision) VALUES (:queue, :pool, :at_ms, :decision);
