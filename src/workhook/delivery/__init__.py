"""From a committed dispatch to the receiver and back: lanes, attempts, records."""
