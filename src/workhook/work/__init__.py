"""The work API: ten rooms in one order, from `kernel` to `administration`. Begin with docs/contributors/architecture.md."""
