-- How activity $2 of queue $1 ended; state null while it has not; no row if there is no such activity.
SELECT h.id, h.state, h.result, h.result_codec, h.error, h.finished_at
FROM {schema}.runnerq_history h WHERE h.id = $2 AND h.id BETWEEN '{first_id}' AND '{last_id}' AND h.queue_id = $1
UNION ALL
SELECT a.id, NULL, NULL, NULL, NULL, NULL
FROM {schema}.runnerq_activities a WHERE a.id = $2 AND a.queue_id = $1
