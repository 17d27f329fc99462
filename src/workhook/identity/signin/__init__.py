"""How people sign in: passwords, sessions, one-time links, an OpenID provider."""
