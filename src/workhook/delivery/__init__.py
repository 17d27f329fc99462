"""Delivery of committed dispatches to their receivers: lanes, attempts and records."""
