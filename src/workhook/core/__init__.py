"""Building blocks for every area. Imports no other package of the project."""
