"""Reading cards."""


def read_cards(text):
    """The cards of a text, in order, each a mapping of its fields. Raises ``ValueError`` that names the line."""
    cards, card = [], {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if line.startswith("#"):
            continue
        if line:
            field, colon, value = line.partition(":")
            if not colon:
                raise ValueError(f"line {number}: no colon")
            card[field.strip()] = value.strip()
        elif card:
            cards.append(card)
            card = {}
    return cards
