-- Which of the awaited ids have ended, and how: one statement for all futures of a process.
SELECT h.id, q.name AS queue, h.state, h.result, h.result_codec, h.error, h.finished_at
FROM unnest($1::uuid[]) AS awaited(id)
JOIN {schema}.runnerq_history h ON h.id = ANY (ARRAY[awaited.id])
JOIN {schema}.runnerq_queues q ON q.queue_id = h.queue_id
