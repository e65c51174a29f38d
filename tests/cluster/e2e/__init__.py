"""The whole product on a real Kubernetes: chart, operator, workers, console, an app that enqueues."""
