-- Make an engine known, alive as of now. Registering twice is harmless.
INSERT INTO {schema}.runnerq_engines
  (engine_id, queue_id, state, worker, host, pid, slots, types, pool, pod, build_id, version)
VALUES ($1, $2, {engine_running}, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (engine_id) DO UPDATE
SET queue_id = EXCLUDED.queue_id, state = EXCLUDED.state, heartbeat_at = now(), worker = EXCLUDED.worker,
    host = EXCLUDED.host, pid = EXCLUDED.pid, slots = EXCLUDED.slots, types = EXCLUDED.types, pool = EXCLUDED.pool,
    pod = EXCLUDED.pod, build_id = EXCLUDED.build_id, version = EXCLUDED.version
