"""x"""

EFFECTS: dict[str, str] = {}
