-- Give back what a claim took whose answer never came: the tokens of engine $2 between $3 and $4. Its
-- attempts are not counted, no handler saw them.
UPDATE {schema}.runnerq_activities
SET state = {pending}, attempt = attempt - 1, token = NULL, engine_id = NULL, deadline = NULL, claimed_at = NULL
WHERE state = {processing} AND queue_id = $1 AND engine_id = $2 AND token BETWEEN $3 AND $4
RETURNING id
