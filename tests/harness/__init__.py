"""The environment of the tests: real databases, server processes and receivers."""
