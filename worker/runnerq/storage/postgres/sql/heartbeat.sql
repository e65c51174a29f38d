-- An engine says that it lives. A late beat of a retired engine must not bring it back to life: no row.
UPDATE {schema}.runnerq_engines
SET heartbeat_at = now(), state = $3, busy = $4, counters = $5
WHERE engine_id = $1 AND queue_id = (SELECT q.queue_id FROM {schema}.runnerq_queues q WHERE q.name = $2)
  AND state <> {engine_stopped}
RETURNING cordoned
