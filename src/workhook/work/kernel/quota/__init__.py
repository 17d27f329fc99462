"""How much one organization (or person) may have stored. Decision 22 tells why it is as it is."""
