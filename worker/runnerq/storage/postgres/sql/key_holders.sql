-- Who holds the keys ($1 types, $2 digests) now. Asked after enqueue_keyed lost them, in a statement of its
-- own: a holder that committed while that one waited is not in its snapshot.
SELECT d.place, k.activity_id
FROM unnest($1::int[], $2::uuid[]) WITH ORDINALITY AS d(type_id, digest, place)
JOIN {schema}.runnerq_idempotency k
  ON k.type_id = ANY (ARRAY[d.type_id]) AND k.digest = ANY (ARRAY[d.digest])
