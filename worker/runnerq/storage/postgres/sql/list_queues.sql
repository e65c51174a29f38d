-- Every queue that was ever used.
SELECT name FROM {schema}.runnerq_queues ORDER BY name
