-- Decisions are shown for a day.
DELETE FROM runnerq_decisions WHERE queue = :queue AND at_ms <= :before_ms;
