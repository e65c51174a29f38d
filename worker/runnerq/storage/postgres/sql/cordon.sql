-- Cordon ($3) engines $2 of queue $1, or lift it. FOR UPDATE waits for claims under way and makes later ones
-- read the new value: once this has committed, a cordoned engine claims nothing more. A plain update would
-- not conflict with the claims' key share lock.
WITH held AS MATERIALIZED (
  SELECT e.engine_id FROM {schema}.runnerq_engines e
  WHERE e.queue_id = $1 AND e.engine_id = ANY ($2::uuid[])
  ORDER BY e.engine_id FOR UPDATE)
UPDATE {schema}.runnerq_engines e SET cordoned = $3 FROM held WHERE e.engine_id = held.engine_id
