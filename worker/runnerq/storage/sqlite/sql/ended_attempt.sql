-- What decides about an acknowledgement, of an ended activity.
SELECT acked_token, acked_digest, acked_state FROM runnerq_history WHERE id = :id AND queue = :queue;
