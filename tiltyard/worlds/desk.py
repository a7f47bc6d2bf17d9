"""Opening a namespace for work: the way from its row to a draft with its world and template."""

from collections.abc import Mapping

from schemas.world import TemplateRef
from tiltyard.errors import BadInput, NotPristine
from tiltyard.worlds.builtin import with_engine_tools
from tiltyard.worlds.draft import Draft
from tiltyard.worlds.kit import WorldKind
from tiltyard.worlds.store import Namespace, WorldTx
from tiltyard.worlds.template_reader import TemplateReader, Templates


class Desk:
    """Worlds by name, with the engine's tools, and their templates."""

    def __init__(self, worlds: Mapping[str, WorldKind], templates: Templates) -> None:
        self._worlds = worlds
        self._kinds: dict[str, WorldKind] = {}
        self.templates = templates

    def kind(self, world: str) -> WorldKind:
        """Raises ``BadInput`` for an unknown world."""
        if world not in self._worlds:
            known = ", ".join(sorted(self._worlds)) or "none"
            raise BadInput(f"there is no world {world!r}", field="world", fix=f"known worlds: {known}")
        if world not in self._kinds:
            self._kinds[world] = with_engine_tools(self._worlds[world])
        return self._kinds[world]

    def reader(self, world: str, template: TemplateRef) -> TemplateReader:
        return self.templates.reader(self.kind(world), template)

    def draft(self, tx: WorldTx, namespace: Namespace) -> Draft:
        """Raises ``NotPristine`` when the template is not the one that was leased."""
        assert namespace.request is not None, "only a leased namespace has rows"
        assert namespace.lease is not None, "only a leased namespace has rows"
        reader = self.reader(namespace.request.world, namespace.request.template)
        if reader.digest != namespace.lease.template_digest:
            raise NotPristine(
                f"the template {namespace.request.template.name} of {namespace.request.world} has changed since "
                f"{namespace.name} was leased"
            )
        return Draft(tx, namespace, namespace.request, reader)


def known(tx: WorldTx, name: str) -> Namespace:
    """The namespace, held. Raises ``BadInput`` when there is none of that name."""
    namespace = tx.namespace(name)
    if namespace is None:
        raise BadInput(f"there is no namespace {name!r}", field="namespace", fix="use the one of the lease")
    return namespace
