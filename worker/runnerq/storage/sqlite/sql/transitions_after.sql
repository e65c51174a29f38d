-- What came after a position, of all queues: numbers have no holes, so a jump means a loss.
SELECT seq, queue, event FROM runnerq_transitions WHERE seq > :position ORDER BY seq LIMIT :limit;
