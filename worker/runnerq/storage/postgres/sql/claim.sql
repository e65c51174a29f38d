-- Take up to $8 due activities for engine $1 of queue $2, walking the lanes ($3 type, $4 priority, $5 retried)
-- in the order given, each from its head ($12 due, $13 id) on. Lanes come in groups ($6: each lane's group, $7: at most how many of each group), by
-- which retried work is held to its share.
-- Each lane is one index range, read in order and left as soon as enough is locked: foreign types and
-- future work are never visited. `ORDER BY priority, due` over all types would sort the whole backlog.
-- 13 us of server CPU per activity at batch 200, alone and beside 100,000 foreign and 100,000 future ones.
-- What was claimed before a lane's head leaves dead index entries behind; they are not walked again.
-- The engine's row is locked against `cordon`, which waits for us and which we cannot overtake; it does
-- not conflict with heartbeats. No such engine, cordoned or stopped: no lane is walked.
-- ctid = ANY: the rows are locked by this very statement, so their places cannot change.
-- A token is 128 bits of the hash of $9 (128 random bits, drawn by the caller for this call alone) and the id: as
-- good as drawn at random to whoever does not know $9, and whoever lost the answer to this call can still
-- find what it took (release_unanswered.sql).
WITH claimant AS MATERIALIZED (
  SELECT e.worker FROM {schema}.runnerq_engines e
  WHERE e.engine_id = $1 AND e.queue_id = $2 AND NOT e.cordoned AND e.state <> {engine_stopped}
  FOR KEY SHARE),
picked AS MATERIALIZED (
  SELECT walk.place
  FROM claimant
  CROSS JOIN unnest($7::int[]) WITH ORDINALITY AS share(quota, number)
  CROSS JOIN LATERAL (
    SELECT taken.place
    FROM unnest($3::int[], $4::smallint[], $5::smallint[], $6::bigint[], $12::timestamptz[], $13::uuid[])
      AS lane(type_id, priority, retried, number, due, id)
    CROSS JOIN LATERAL (
      SELECT a.ctid AS place FROM {schema}.runnerq_activities a
      WHERE a.state IN ({waiting}) AND a.type_id = lane.type_id AND a.priority = lane.priority
        AND a.retried = lane.retried AND (a.due, a.id) >= (lane.due, lane.id) AND a.due <= now()
      ORDER BY a.due, a.id LIMIT share.quota FOR UPDATE SKIP LOCKED) taken
    WHERE lane.number = share.number
    LIMIT share.quota) walk
  LIMIT $8)
UPDATE {schema}.runnerq_activities a
SET state = {processing}, attempt = a.attempt + 1, engine_id = $1, worker = claimant.worker, claimed_at = now(),
    deadline = now() + greatest($10::bigint, a.timeout_ms + $11::bigint) * interval '1 millisecond',
    token = encode(substring(sha256($9::bytea || uuid_send(a.id)) FROM 1 FOR 16), 'hex')::uuid
FROM claimant
WHERE a.ctid = ANY (ARRAY(SELECT picked.place FROM picked))
RETURNING a.id, a.token, a.type_id, a.priority, a.attempt, a.max_attempts, a.timeout_ms, a.created_at, a.due,
          a.claimed_at, a.deadline, a.payload, a.codec, a.headers, a.root_id, a.parent_id, a.depth, a.worker
