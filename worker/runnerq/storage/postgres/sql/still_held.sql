-- The places in the call of the claims that are current.
SELECT d.place
FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY AS d(id, token, place)
JOIN {schema}.runnerq_activities a
  ON a.id = ANY (ARRAY[d.id]) AND a.token = d.token AND a.queue_id = $3
