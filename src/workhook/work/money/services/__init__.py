"""The services that an organization offers."""
