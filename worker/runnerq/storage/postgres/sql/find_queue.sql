-- The number of queue $1, if it has one.
SELECT queue_id FROM {schema}.runnerq_queues WHERE name = $1
