"""Leases: a namespace is handed out pristine, under a new generation, to one owner (I4)."""

from collections.abc import Sequence

from schemas.base import canonical, digest_of
from schemas.tool import ToolSpec, tools_digest
from schemas.world import Lease, LeaseRequest, Owner
from tiltyard.errors import BadInput, NotPristine
from tiltyard.worlds.desk import Desk
from tiltyard.worlds.kit import WorldKind
from tiltyard.worlds.store import Contents, Namespace, NamespaceState, WorldStore
from tiltyard.worlds.template_reader import TemplateReader

HELD = (NamespaceState.LEASED, NamespaceState.SEALED, NamespaceState.DRAINED)
"""States in which a namespace has an owner."""


def state_digest(contents: Contents, template_digest: str) -> str:
    """Digest over all that a namespace holds, of whatever generation, and the template under it.

    Pristine is one that holds nothing: the rows that the next episode starts with are the template's.
    """
    return digest_of({**contents._asdict(), "template": template_digest})


class Leasing:
    """Hands namespaces out."""

    def __init__(self, store: WorldStore, desk: Desk) -> None:
        self._store, self._desk = store, desk

    def lease(self, request: LeaseRequest) -> Lease:
        """See ``tiltyard.ports.World.lease``."""
        kind = self._desk.kind(request.world)
        reader = self._desk.templates.reader(kind, request.template)
        tools = allowed_tools(kind, request)
        lease = None
        while lease is None:
            lease = self._try(request, kind, reader, tools)
        return lease

    def leases(self) -> tuple[Lease, ...]:
        """See ``tiltyard.ports.World.leases``."""
        with self._store.transaction() as tx:
            return tuple(one.lease for one in tx.namespaces() if one.state in HELD and one.lease is not None)

    def next_generation(self, namespace: Namespace) -> int:
        """The generation of the next lease: it grows at every lease and at every seal."""
        return namespace.fence + 1

    def pristine(self, found: str, reader: TemplateReader) -> bool:
        """The check that what was found of a namespace is what is found of a new one (I4)."""
        return found == state_digest(Contents(), reader.digest)

    def _try(
        self, request: LeaseRequest, kind: WorldKind, reader: TemplateReader, tools: Sequence[ToolSpec]
    ) -> Lease | None:
        """A lease, or ``None`` when the namespace that was tried had to be quarantined."""
        with self._store.transaction() as tx:
            held = tx.owned_by(owner_key(request.owner))
            if held is not None:
                return _same_lease(held, request)
            if reader.altered():
                self._desk.templates.forget(kind, request.template)
                raise NotPristine(f"the template {request.template.name} of {kind.name} was changed in memory")
            namespace = tx.free_namespace() or tx.new_namespace()
            found = state_digest(tx.contents(namespace.name), reader.digest)
            if self.pristine(found, reader):
                leased = self._leased(namespace, request, reader, tools, found)
                tx.put_namespace(leased)
                # Read again: a store that loses the new generation would let the last episode write.
                if tx.namespace(namespace.name) == leased and leased.fence > namespace.fence:
                    return leased.lease
            tx.put_namespace(quarantined(namespace, "not pristine when it was to be leased"))
        if namespace.fence == 0:
            raise NotPristine(f"the new namespace {namespace.name} is not empty")
        return None

    def _leased(
        self,
        namespace: Namespace,
        request: LeaseRequest,
        reader: TemplateReader,
        tools: Sequence[ToolSpec],
        found: str,
    ) -> Namespace:
        generation = self.next_generation(namespace)
        lease = Lease(
            namespace=namespace.name,
            generation=generation,
            owner=request.owner,
            episode_id=request.episode_id,
            world=request.world,
            template_digest=reader.digest,
            tools_digest=tools_digest(tuple(tools)),
            state_digest=found,
        )
        return Namespace(
            name=namespace.name,
            state=NamespaceState.LEASED,
            fence=generation,
            lease_generation=generation,
            owner=owner_key(request.owner),
            request=request,
            lease=lease,
        )


def owner_key(owner: Owner) -> str:
    """An owner as one comparable text."""
    return canonical(owner).decode()


def quarantined(namespace: Namespace, reason: str) -> Namespace:
    """The namespace, never to be used again; its rows stay for whoever looks into it."""
    sealed = namespace.fence > namespace.lease_generation
    return namespace.model_copy(
        update={
            "state": NamespaceState.QUARANTINED,
            "fence": namespace.fence if sealed else namespace.fence + 1,
            "owner": None,
            "reason": reason,
        }
    )


def allowed_tools(kind: WorldKind, request: LeaseRequest) -> tuple[ToolSpec, ...]:
    """The tools of a lease. Raises ``BadInput`` when it, or its fault plan, names one that the world lacks."""
    named = [("tools", tool) for tool in request.tools] + [("faults", fault.tool) for fault in request.faults]
    named += [("inside_tools", tool) for tool in request.inside_tools]
    for field, tool in named:
        if tool not in kind.tools:
            known = ", ".join(sorted(kind.tools))
            raise BadInput(f"{kind.name} has no tool {tool!r}", field=field, fix=f"its tools are: {known}")
    return tuple(tool.spec for name, tool in kind.tools.items() if not request.tools or name in request.tools)


def _same_lease(held: Namespace, request: LeaseRequest) -> Lease:
    if held.request != request or held.lease is None:
        raise BadInput(
            f"{request.owner.workflow_id} holds {held.name} for another request",
            field="owner",
            fix="send the first request again, or give the namespace back before",
        )
    return held.lease
