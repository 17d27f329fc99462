"""Sign-in and consent to apps."""
