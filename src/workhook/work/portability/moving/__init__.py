"""An organization goes to another server: everything of it is written down as lines of JSON, and read again there."""
