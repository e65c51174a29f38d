-- An engine has stopped: what it still holds may be taken at once.
UPDATE {schema}.runnerq_engines SET state = {engine_stopped}, busy = 0, heartbeat_at = now()
WHERE engine_id = $1 AND queue_id = $2
