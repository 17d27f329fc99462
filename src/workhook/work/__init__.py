"""The work API: ten packages with a strict import order, from `kernel` to `administration`. Begin with
docs/architecture.md."""
