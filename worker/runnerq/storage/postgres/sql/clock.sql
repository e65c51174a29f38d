-- The server's time.
SELECT now() AS now
