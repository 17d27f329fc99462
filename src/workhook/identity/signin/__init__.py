"""Sign-in with passwords, sessions, one-time links and an OpenID provider."""
