-- Queue $1's pods as the fleet last saw them.
SELECT pool, name, phase, detail, since FROM {schema}.runnerq_pods WHERE queue_id = $1 ORDER BY pool, name
