-- Never shortens a lease; touches no row when the claim is lost.
UPDATE runnerq_activities SET deadline_ms = max(deadline_ms, :now_ms + :by_ms)
WHERE id = :id AND queue = :queue AND token = :token;
