"""What generated shops are made of. Prices are in cents; a variant costs its product's price give or take."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Article:
    """A type of product: its name, its usual price and the options that its variants combine."""

    name: str
    cents: int
    options: dict[str, tuple[str, ...]]


CATALOGUE = (
    Article("Rain Jacket", 11_900, {"colour": ("moss", "navy", "rust"), "size": ("S", "M", "L", "XL")}),
    Article("Desk Lamp", 6_450, {"finish": ("brass", "black", "white"), "arm": ("short", "long")}),
    Article("Wool Blanket", 8_990, {"pattern": ("plain", "checked"), "size": ("single", "double", "king")}),
    Article("Travel Mug", 2_475, {"colour": ("steel", "teal", "plum"), "volume": ("350 ml", "500 ml")}),
    Article("Hiking Boots", 16_350, {"size": ("39", "41", "43", "45"), "height": ("low", "mid", "high")}),
    Article("Electric Kettle", 5_725, {"colour": ("cream", "graphite"), "volume": ("1.0 l", "1.7 l")}),
    Article("Chef's Knife", 9_280, {"blade": ("18 cm", "21 cm", "24 cm"), "handle": ("beech", "walnut")}),
    Article("Bicycle Helmet", 7_140, {"size": ("S", "M", "L"), "visor": ("clear", "smoked", "none")}),
    Article("Notebook", 1_365, {"ruling": ("lined", "dotted", "blank"), "cover": ("linen", "leather")}),
    Article("Backpack", 10_815, {"volume": ("20 l", "28 l", "36 l"), "colour": ("olive", "slate")}),
    Article("Yoga Mat", 4_260, {"thickness": ("4 mm", "6 mm", "8 mm"), "colour": ("sand", "indigo")}),
    Article("Headlamp", 3_895, {"beam": ("200 lm", "400 lm", "800 lm"), "power": ("battery", "USB")}),
    Article("Wall Clock", 5_230, {"diameter": ("25 cm", "30 cm"), "face": ("white", "slate", "oak")}),
    Article("Umbrella", 3_180, {"colour": ("black", "mustard"), "handle": ("straight", "hook")}),
    Article("Bookshelf", 18_760, {"wood": ("pine", "ash", "oak"), "shelves": ("3", "4", "5")}),
    Article("Garden Hose", 4_615, {"length": ("15 m", "25 m", "50 m"), "fitting": ("click", "screw")}),
)

FIRST_NAMES = (
    "Ada", "Bela", "Chidi", "Dora", "Emil", "Farah", "Goran", "Hana", "Idris", "Juno",
    "Kofi", "Leila", "Marek", "Nadia", "Oskar", "Priya", "Quinn", "Rosa", "Sven", "Tamar",
)  # fmt: skip
LAST_NAMES = (
    "Abbott", "Brandt", "Castillo", "Dimitrov", "Ekberg", "Fontaine", "Gallo", "Haddad", "Ivanov", "Jensen",
    "Kimura", "Lund", "Mbeki", "Novak", "Okafor", "Petrov", "Quist", "Romero", "Sato", "Tanaka",
)  # fmt: skip
STREETS = ("Orchard Road", "Mill Lane", "Harbour Street", "Chapel Row", "Quarry Hill", "Station Avenue")
CITIES = (
    ("Portland", "OR", "972"),
    ("Boise", "ID", "837"),
    ("Madison", "WI", "537"),
    ("Savannah", "GA", "314"),
    ("Tucson", "AZ", "857"),
    ("Albany", "NY", "122"),
    ("Duluth", "MN", "558"),
)
CARD_BRANDS = ("visa", "mastercard", "amex")
WALLETS = (
    ("credit_card", "gift_card"),
    ("paypal",),
    ("credit_card", "paypal", "gift_card"),
    ("gift_card",),
    ("credit_card", "credit_card"),
    ("paypal", "gift_card"),
)
"""The payment methods that a customer may have, by kind."""

STATUSES = ("pending", "delivered", "pending", "delivered", "processed", "pending", "delivered", "cancelled")
"""Statuses of generated orders, in turn."""
