-- The queues whose live stream somebody watches, and for how long that holds. Asked twice a second at most.
SELECT queue_id, floor(extract(epoch FROM until - now()) * 1000)::bigint AS ms
FROM {schema}.runnerq_controls WHERE name = 'stream' AND until > now()
