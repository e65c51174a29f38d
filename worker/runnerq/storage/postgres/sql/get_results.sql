-- Which of the awaited ids, all of one day, have ended, and how: one statement for all futures of a process.
-- No join with the list of ids: with the day as a constant, the planner would read the whole day for it.
SELECT h.id, q.name AS queue, h.state, h.result, h.result_codec, h.error, h.finished_at
FROM {schema}.runnerq_history h JOIN {schema}.runnerq_queues q ON q.queue_id = ANY (ARRAY[h.queue_id])
WHERE h.id = ANY ($1::uuid[]) AND h.id BETWEEN '{first_id}' AND '{last_id}'
