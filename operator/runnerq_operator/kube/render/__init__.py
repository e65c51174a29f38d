"""What is sent to the API server for a queue: pure functions from wishes to objects."""
