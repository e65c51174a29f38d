-- Work whose lease ended or whose engine is gone. Leases of living engines are filtered before the limit, so a
-- page of them cannot hide a lost one; there are no more of them than slots.
SELECT a.row_id, a.id, a.type, a.attempt, a.max_attempts, a.due_ms, a.claimed_ms, a.worker_id, a.payload,
  a.codec
FROM runnerq_activities a
WHERE a.queue = :queue AND a.token IS NOT NULL
  AND (a.deadline_ms <= :now_ms
       OR NOT EXISTS (
         SELECT 1 FROM runnerq_engines e
         WHERE e.queue = a.queue AND e.engine_id = a.engine_id
           AND e.state <> 'stopped' AND e.heartbeat_ms > :now_ms - :liveness_ms))
ORDER BY a.deadline_ms LIMIT :limit;
