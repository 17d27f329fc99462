"""Administration of a server's accounts (`accounts`), and deletion of organizations (`deletion`)."""
