"""What the tests run against: real databases, real server processes, real receivers."""
