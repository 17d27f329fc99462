"""The files of a project: folders, uploads, a page for each file, and comments."""
