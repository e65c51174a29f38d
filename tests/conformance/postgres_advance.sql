-- Time passes for queue $2: every stored instant moves back by $1. What the server's own clock says stays.

UPDATE runnerq_activities
SET created_at = created_at - $1::interval, due = due - $1::interval,
    claimed_at = claimed_at - $1::interval, deadline = deadline - $1::interval
WHERE queue_id = (SELECT queue_id FROM runnerq_queues WHERE name = $2);

UPDATE runnerq_history
SET created_at = created_at - $1::interval, due = due - $1::interval,
    claimed_at = claimed_at - $1::interval, finished_at = finished_at - $1::interval
WHERE queue_id = (SELECT queue_id FROM runnerq_queues WHERE name = $2);

UPDATE runnerq_idempotency SET expires_at = expires_at - $1::interval
WHERE type_id IN (
  SELECT type_id FROM runnerq_types JOIN runnerq_queues q USING (queue_id) WHERE q.name = $2);

UPDATE runnerq_events
SET at = at - $1::interval, claimed_at = claimed_at - $1::interval, ready_at = ready_at - $1::interval
WHERE activity_id IN (
  SELECT id FROM runnerq_activities JOIN runnerq_queues q USING (queue_id) WHERE q.name = $2
  UNION ALL
  SELECT id FROM runnerq_history JOIN runnerq_queues q USING (queue_id) WHERE q.name = $2);

UPDATE runnerq_engines
SET started_at = started_at - $1::interval, heartbeat_at = heartbeat_at - $1::interval
WHERE queue_id = (SELECT queue_id FROM runnerq_queues WHERE name = $2);

UPDATE runnerq_decisions SET at = at - $1::interval
WHERE queue_id = (SELECT queue_id FROM runnerq_queues WHERE name = $2);
