-- The server's time, and which of the ids $1 have ended already: asked before a COPY, which
-- cannot leave rows out.
SELECT now() AS now, coalesce(array_agg(h.id), '{}'::uuid[]) AS ids
FROM {schema}.runnerq_history h WHERE h.id = ANY ($1::uuid[]) AND h.id BETWEEN '{first_id}' AND '{last_id}'
