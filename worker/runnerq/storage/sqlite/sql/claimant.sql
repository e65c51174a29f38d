-- The engine, if it may claim: registered, not stopped, not cordoned. Read inside the claiming transaction, so
-- that a cordon that has returned holds.
SELECT worker_id FROM runnerq_engines
WHERE queue = :queue AND engine_id = :engine_id AND state <> 'stopped' AND NOT cordoned;
