"""Tasks, the cards in the columns of a board."""
