-- Newest first; the later of two of one instant is the newer.
SELECT decision FROM runnerq_decisions
WHERE queue = :queue AND at_ms > :before_ms AND (:pool IS NULL OR pool = :pool)
ORDER BY at_ms DESC, seq DESC LIMIT :limit;
