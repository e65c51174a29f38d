-- For people at psql, and for tools that read RunnerQ's table of results. No code of ours reads these.

CREATE FUNCTION {schema}.runnerq_readable(value bytea) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $body$
-- JSON where the bytes are JSON, else their hexadecimal digits: a view must never fail on one row.
BEGIN
  RETURN convert_from(value, 'UTF8')::jsonb;
EXCEPTION WHEN OTHERS THEN
  RETURN to_jsonb(encode(value, 'hex'));
END
$body$;

CREATE FUNCTION {schema}.runnerq_state(state smallint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $body$
  SELECT CASE state
    WHEN {pending} THEN 'pending' WHEN {scheduled} THEN 'scheduled' WHEN {retrying} THEN 'retrying'
    WHEN {processing} THEN 'processing' WHEN {completed} THEN 'completed' WHEN {failed} THEN 'failed'
    WHEN {dead_letter} THEN 'dead_letter' WHEN {cancelled} THEN 'cancelled' END
$body$;

CREATE VIEW {schema}.runnerq_results AS
SELECT h.id AS activity_id, {schema}.runnerq_state(h.state) AS status,
       {schema}.runnerq_readable(h.result) AS result, {schema}.runnerq_readable(h.error) AS error,
       h.finished_at AS created_at
FROM {schema}.runnerq_history h;

CREATE VIEW {schema}.runnerq_readable_activities AS
SELECT a.id, q.name AS queue, t.name AS type, {schema}.runnerq_state(a.state) AS status, a.priority,
       a.attempt, a.max_attempts, a.created_at, a.due AS ready_at, a.claimed_at, a.deadline,
       NULL::timestamptz AS finished_at, a.worker,
       encode(a.idempotency_key, 'escape') AS idempotency_key, a.codec,
       {schema}.runnerq_readable(a.payload) AS payload, {schema}.runnerq_readable(a.headers) AS headers,
       NULL::jsonb AS result, {schema}.runnerq_readable(a.error) AS error
FROM {schema}.runnerq_activities a
JOIN {schema}.runnerq_queues q USING (queue_id) JOIN {schema}.runnerq_types t USING (type_id)
UNION ALL
SELECT h.id, q.name, t.name, {schema}.runnerq_state(h.state), h.priority, h.attempt, h.max_attempts,
       h.created_at, h.due, h.claimed_at, NULL, h.finished_at, h.worker,
       encode(h.idempotency_key, 'escape'), h.codec, {schema}.runnerq_readable(h.payload),
       {schema}.runnerq_readable(h.headers), {schema}.runnerq_readable(h.result),
       {schema}.runnerq_readable(h.error)
FROM {schema}.runnerq_history h
JOIN {schema}.runnerq_queues q USING (queue_id) JOIN {schema}.runnerq_types t USING (type_id);
