-- The stored part of a timeline, in the order in which it happened.
SELECT event FROM runnerq_events WHERE activity_id = :id ORDER BY seq;
