-- Writes take turns, so a claim either ended before this or reads it.
UPDATE runnerq_engines SET cordoned = :cordoned WHERE queue = :queue AND engine_id = :engine_id;
