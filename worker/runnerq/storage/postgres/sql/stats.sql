-- Counts of queue $1 with types $2, each up to $3 + 1 index entries: count(*) over a backlog reads all of it.
-- The order only names the index: in the lanes' one, counting a rare state would read all the others.
-- Live states by type; ended ones in all (type_id null).
SELECT wanted.type_id, state.code AS state, counted.n
FROM unnest($2::int[]) AS wanted(type_id)
CROSS JOIN unnest(ARRAY[{waiting}]::smallint[]) AS state(code)
CROSS JOIN LATERAL (
  SELECT count(*) AS n FROM (
    SELECT FROM {schema}.runnerq_activities a
    WHERE a.type_id = wanted.type_id AND a.state = state.code AND a.state IN ({waiting})
    ORDER BY a.id LIMIT $3 + 1) capped) counted
UNION ALL
SELECT held.type_id, {processing}::smallint, count(*)
FROM (
  SELECT a.type_id FROM {schema}.runnerq_activities a
  WHERE a.state = {processing} AND a.queue_id = $1 LIMIT $3 + 1) held
GROUP BY held.type_id
UNION ALL
SELECT NULL, state.code, counted.n
FROM unnest(ARRAY[{completed}, {failed}, {dead_letter}, {cancelled}]::smallint[]) AS state(code)
CROSS JOIN LATERAL (
  SELECT count(*) AS n FROM (
    SELECT FROM unnest($2::int[]) AS wanted(type_id)
    CROSS JOIN LATERAL (
      SELECT FROM {schema}.runnerq_history h
      WHERE h.type_id = wanted.type_id AND h.state = state.code LIMIT $3 + 1) ended
    LIMIT $3 + 1) capped) counted
