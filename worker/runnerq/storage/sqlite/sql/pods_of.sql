-- What the fleet last reported.
SELECT pod FROM runnerq_pods WHERE queue = :queue ORDER BY pool, name;
