-- Move deadlines to now + $3 ms where that is later; the places in the call of the claims that are held.
UPDATE {schema}.runnerq_activities a
SET deadline = greatest(a.deadline, now() + $4::bigint * interval '1 millisecond')
FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY AS d(id, token, place)
WHERE a.id = ANY (ARRAY[d.id]) AND a.token = d.token AND a.queue_id = $3
RETURNING d.place
