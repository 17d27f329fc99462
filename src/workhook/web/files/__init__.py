"""The files of a project: folders, uploads, previews and comments."""
