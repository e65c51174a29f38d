-- Let go of keys whose holders $1 are not stored any more.
DELETE FROM {schema}.runnerq_idempotency k
WHERE k.activity_id = ANY ($1::uuid[]) AND k.type_id = ANY ($2::int[]) AND k.digest = ANY ($3::uuid[])
