"""Getting started on a new server: names, a first project, and a test webhook."""
