-- Who holds the keys ($1 types, $2 digests) now, and whether that activity is still stored. Asked after
-- enqueue_keyed lost them, in a statement of its own: a holder that committed while that one waited is not in
-- its snapshot. A holder and its key commit together, so one that is missing here was deleted by hand.
SELECT d.place, k.activity_id,
       EXISTS (SELECT FROM {schema}.runnerq_activities a WHERE a.id = k.activity_id)
         OR EXISTS (SELECT FROM {schema}.runnerq_history h WHERE h.id = k.activity_id) AS stored
FROM unnest($1::int[], $2::uuid[]) WITH ORDINALITY AS d(type_id, digest, place)
JOIN {schema}.runnerq_idempotency k
  ON k.type_id = ANY (ARRAY[d.type_id]) AND k.digest = ANY (ARRAY[d.digest])
