"""An app as users write it, put into the pods of the tests: activities that take as long as they are told."""
