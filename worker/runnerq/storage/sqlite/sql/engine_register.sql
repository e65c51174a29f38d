-- A new engine, or the same one again after its answer was lost.
INSERT INTO runnerq_engines (
  queue, engine_id, info, worker_id, state, counters, started_ms, heartbeat_ms)
VALUES (:queue, :engine_id, :info, :worker_id, 'running', '{}', :now_ms, :now_ms)
ON CONFLICT (queue, engine_id) DO UPDATE SET
  info = excluded.info, state = 'running', heartbeat_ms = excluded.heartbeat_ms;
