"""The filters of a board that a person has used last."""
