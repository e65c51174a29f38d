-- Whether a claim is current.
SELECT 1 FROM runnerq_activities WHERE id = :id AND queue = :queue AND token = :token;
