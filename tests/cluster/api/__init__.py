"""Tests against a real API server alone (etcd and kube-apiserver, no node): seconds instead of minutes."""
