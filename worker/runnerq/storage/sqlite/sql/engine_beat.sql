-- Liveness of one engine. A late beat of an engine that was retired must not bring it back.
UPDATE runnerq_engines
SET state = :state, busy = :busy, counters = :counters, heartbeat_ms = :now_ms
WHERE queue = :queue AND engine_id = :engine_id AND state <> 'stopped'
RETURNING cordoned;
