-- Forget what has no use any more: engines silent for an hour (their work was taken back long ago), keys
-- whose time is over. In small portions, so that nobody waits for it.
WITH silent AS (
  DELETE FROM {schema}.runnerq_engines WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {schema}.runnerq_engines WHERE heartbeat_at < now() - interval '1 hour'
    LIMIT 200 FOR UPDATE SKIP LOCKED))
  RETURNING 1),
expired AS (
  DELETE FROM {schema}.runnerq_idempotency WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {schema}.runnerq_idempotency WHERE expires_at < now()
    ORDER BY expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED))
  RETURNING 1)
SELECT (SELECT count(*) FROM silent) AS engines, (SELECT count(*) FROM expired) AS keys
