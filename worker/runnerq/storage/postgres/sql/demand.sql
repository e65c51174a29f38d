-- What the queues $1 ask for, by type, and their engines: one row per queue, in input order, in one snapshot.
-- $2: horizon in ms; $3: where counting stops. Bounded: lanes by a loose index scan as in lane_heads.sql,
-- then at most $3 + 1 entries of each range; claims by the index of what is held.
-- The inner orders only name the index: in any other, counting would read what it does not count.
-- JSON, because a row holds two lists of different shape.
WITH RECURSIVE asked AS MATERIALIZED (
  SELECT wanted.place, wanted.name, q.queue_id
  FROM unnest($1::text[]) WITH ORDINALITY AS wanted(name, place)
  LEFT JOIN {schema}.runnerq_queues q ON q.name = wanted.name),
kind AS MATERIALIZED (
  SELECT t.type_id, t.name, t.queue_id FROM {schema}.runnerq_types t
  WHERE t.queue_id IN (SELECT asked.queue_id FROM asked)),
lane AS (
  SELECT kind.type_id, top.priority, top.retried
  FROM kind
  CROSS JOIN LATERAL (
    SELECT a.priority, a.retried FROM {schema}.runnerq_activities a
    WHERE a.type_id = kind.type_id AND a.state IN ({waiting})
    ORDER BY a.priority DESC, a.retried DESC LIMIT 1) top
  UNION ALL
  SELECT lane.type_id, below.priority, below.retried
  FROM lane
  CROSS JOIN LATERAL (
    SELECT a.priority, a.retried FROM {schema}.runnerq_activities a
    WHERE a.type_id = lane.type_id AND a.state IN ({waiting})
      AND (a.priority, a.retried) < (lane.priority, lane.retried)
    ORDER BY a.priority DESC, a.retried DESC LIMIT 1) below),
running AS MATERIALIZED (
  SELECT a.type_id, count(*) AS n FROM {schema}.runnerq_activities a
  WHERE a.state = {processing} AND a.queue_id IN (SELECT asked.queue_id FROM asked)
  GROUP BY a.type_id),
measured AS (
  SELECT kind.queue_id, kind.name, ready.n AS claimable, ready.oldest, soon.n AS due_soon, later.n AS future,
         coalesce((SELECT running.n FROM running WHERE running.type_id = kind.type_id), 0) AS running
  FROM kind
  CROSS JOIN LATERAL (
    SELECT count(*) AS n, min(capped.due) AS oldest FROM (
      SELECT due.due FROM lane CROSS JOIN LATERAL (
        SELECT a.due FROM {schema}.runnerq_activities a
        WHERE a.type_id = lane.type_id AND a.priority = lane.priority AND a.retried = lane.retried
          AND a.state IN ({waiting}) AND a.due <= now()
        ORDER BY a.due, a.id LIMIT $3::int + 1) due
      WHERE lane.type_id = kind.type_id LIMIT $3::int + 1) capped) ready
  CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM (
      SELECT FROM lane CROSS JOIN LATERAL (
        SELECT FROM {schema}.runnerq_activities a
        WHERE a.type_id = lane.type_id AND a.priority = lane.priority AND a.retried = lane.retried
          AND a.state IN ({waiting}) AND a.due > now() AND a.due <= now() + $2::bigint * interval '1 millisecond'
        ORDER BY a.due, a.id LIMIT $3::int) due
      WHERE lane.type_id = kind.type_id LIMIT $3::int) capped) soon
  CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM (
      SELECT FROM lane CROSS JOIN LATERAL (
        SELECT FROM {schema}.runnerq_activities a
        WHERE a.type_id = lane.type_id AND a.priority = lane.priority AND a.retried = lane.retried
          AND a.state IN ({waiting}) AND a.due > now()
        ORDER BY a.due, a.id LIMIT $3::int) due
      WHERE lane.type_id = kind.type_id LIMIT $3::int) capped) later)
SELECT asked.name AS queue, now() AS now,
  (SELECT coalesce(json_agg(json_build_object(
     'type', m.name, 'claimable', least(m.claimable, $3::int), 'claimable_capped', m.claimable > $3::int,
     'oldest_claimable_age_ms', floor(extract(epoch FROM now() - m.oldest) * 1000)::bigint,
     'running', m.running, 'due_soon', m.due_soon, 'future', m.future) ORDER BY m.name), '[]')::text
   FROM measured m
   WHERE m.queue_id = asked.queue_id AND (m.claimable > 0 OR m.future > 0 OR m.running > 0)) AS types,
  (SELECT coalesce(json_agg(json_build_object(
     'engine_id', e.engine_id, 'host', e.host, 'pid', e.pid, 'slots', e.slots, 'types', e.types, 'pool', e.pool,
     'pod', e.pod, 'build_id', e.build_id, 'version', e.version, 'state', e.state, 'busy', e.busy,
     'cordoned', e.cordoned, 'started_ms', floor(extract(epoch FROM e.started_at) * 1000)::bigint,
     'silent_ms', greatest(0, floor(extract(epoch FROM now() - e.heartbeat_at) * 1000))::bigint,
     'counters', convert_from(e.counters, 'UTF8')::json) ORDER BY e.started_at, e.engine_id), '[]')::text
   FROM {schema}.runnerq_engines e
   WHERE e.queue_id = asked.queue_id AND e.state <> {engine_stopped}) AS engines
FROM asked
ORDER BY asked.place
