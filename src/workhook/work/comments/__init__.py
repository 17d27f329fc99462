"""What is said about tasks and files."""
