"""A broken template reader: what the check of templates must catch (I4)."""

from schemas.base import JsonValue
from tiltyard.worlds.kit import Template
from tiltyard.worlds.template_reader import TemplateReader


class CachingReader(TemplateReader):
    """Hands out the same decoded object again and again, so that one caller's change is every caller's."""

    def __init__(self, template: Template) -> None:
        super().__init__(template)
        self._decoded: dict[tuple[str, str], JsonValue] = {}

    def served(self, collection: str, key: str) -> JsonValue:
        if (collection, key) not in self._decoded:
            self._decoded[collection, key] = super().served(collection, key)
        return self._decoded[collection, key]
