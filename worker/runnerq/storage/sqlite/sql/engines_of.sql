-- Engines that have not stopped, oldest first.
SELECT info, state, busy, cordoned, counters, started_ms, heartbeat_ms
FROM runnerq_engines WHERE queue = :queue AND state <> 'stopped'
ORDER BY started_ms, engine_id;
