"""A page as text."""

from catalogue.pages import page, page_count


def listing(titles, number, size):
    """The titles of one page, numbered through, under a line that says which page it is."""
    first = (number - 1) * size + 1
    lines = [f"{first + at}. {title}" for at, title in enumerate(page(titles, number, size))]
    return "\n".join([f"Page {number} of {page_count(len(titles), size)}", *lines])
