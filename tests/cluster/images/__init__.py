"""The container images of the tests, made without a registry where none can be reached."""
