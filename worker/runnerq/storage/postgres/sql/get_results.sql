-- Which of the awaited ids have ended, and how: one statement for all futures of a process.
SELECT h.id, h.queue_id, h.state, h.result, h.result_codec, h.error, h.finished_at
FROM unnest($1::uuid[]) AS awaited(id)
JOIN {schema}.runnerq_history h ON h.id = awaited.id
