"""The first steps on a new server: who one is, a first project, and a webhook that can be seen to arrive."""
