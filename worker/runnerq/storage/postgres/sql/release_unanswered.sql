-- Give back what claims of engine $2 took whose answers never came: the tokens that come from their secrets $3.
-- Their attempts are not counted: no handler saw them.
UPDATE {schema}.runnerq_activities a
SET state = {pending}, attempt = a.attempt - 1, token = NULL, engine_id = NULL, deadline = NULL, claimed_at = NULL
WHERE a.state = {processing} AND a.queue_id = $1 AND a.engine_id = $2
  AND EXISTS (
    SELECT FROM unnest($3::bytea[]) AS lost(secret)
    WHERE a.token = encode(substring(sha256(lost.secret || uuid_send(a.id)) FROM 1 FOR 16), 'hex')::uuid)
RETURNING a.id
