"""The book of all cards."""

from contacts.cards import read_cards


def phones(text):
    """Telephone numbers by name; cards without one are left out."""
    return {card["name"]: card["phone"] for card in read_cards(text) if "phone" in card}
