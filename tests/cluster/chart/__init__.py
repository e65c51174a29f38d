"""The chart, rendered by the real helm. No cluster is needed; what an API server says is tested in e2e."""
