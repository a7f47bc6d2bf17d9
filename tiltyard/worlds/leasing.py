"""Leases: a namespace is handed out pristine, under a new generation, to one owner (I4)."""

from dataclasses import dataclass

from schemas.base import canonical, digest_of
from schemas.branch import Past
from schemas.tool import ToolSpec, tools_digest
from schemas.world import Lease, LeaseRequest, Owner
from tiltyard.errors import BadInput, NotPristine
from tiltyard.worlds import taking_over
from tiltyard.worlds.desk import Desk
from tiltyard.worlds.kit import WorldKind
from tiltyard.worlds.store import Contents, Namespace, NamespaceState, WorldStore, WorldTx
from tiltyard.worlds.template_reader import TemplateReader

HELD = (NamespaceState.LEASED, NamespaceState.SEALED, NamespaceState.DRAINED)
"""States in which a namespace has an owner."""


def state_digest(contents: Contents, template_digest: str) -> str:
    """Digest over all that a namespace holds, of whatever generation, and the template under it.

    Pristine is one that holds nothing: the rows that the next episode starts with are the template's.
    """
    return digest_of({**contents._asdict(), "template": template_digest})


@dataclass(frozen=True)
class Asked:
    """What a lease is asked for, with its world, the template under it and the tools that it is for.

    ``begins_with`` is the digest of ``past``, empty for none."""

    request: LeaseRequest
    past: Past | None
    begins_with: str
    kind: WorldKind
    reader: TemplateReader
    tools: tuple[ToolSpec, ...]


class Leasing:
    """Hands namespaces out."""

    def __init__(self, store: WorldStore, desk: Desk) -> None:
        self._store, self._desk = store, desk

    def lease(self, request: LeaseRequest, past: Past | None = None) -> Lease:
        """See ``tiltyard.ports.World.lease``."""
        kind = self._desk.kind(request.world)
        reader = self._desk.templates.reader(kind, request.template)
        tools = allowed_tools(kind, request)
        if past is not None:
            taking_over.require_whole(past, request, reader)
        asked = Asked(request, past, "" if past is None else digest_of(past), kind, reader, tools)
        lease = None
        while lease is None:
            lease = self._try(asked)
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

    def take_over(self, tx: WorldTx, leased: Namespace, past: Past) -> None:
        """The one way in which a namespace begins with anything (I1)."""
        taking_over.take_over(tx, leased, past)

    def _try(self, asked: Asked) -> Lease | None:
        """A lease, or ``None`` when the namespace that was tried had to be quarantined."""
        request, reader = asked.request, asked.reader
        with self._store.transaction() as tx:
            held = tx.owned_by(owner_key(request.owner))
            if held is not None:
                return _same_lease(held, asked)
            if reader.altered():
                self._desk.templates.forget(asked.kind, request.template)
                raise NotPristine(f"the template {request.template.name} of {request.world} was changed in memory")
            namespace = tx.free_namespace() or tx.new_namespace()
            found = state_digest(tx.contents(namespace.name), reader.digest)
            if self.pristine(found, reader):
                leased = self._leased(namespace, asked, found)
                tx.put_namespace(leased)
                # Read again: a store that loses the new generation would let the last episode write.
                if tx.namespace(namespace.name) == leased and leased.fence > namespace.fence:
                    if asked.past is not None:
                        self.take_over(tx, leased, asked.past)
                    return leased.lease
            tx.put_namespace(quarantined(namespace, "not pristine when it was to be leased"))
        if namespace.fence == 0:
            raise NotPristine(f"the new namespace {namespace.name} is not empty")
        return None

    def _leased(self, namespace: Namespace, asked: Asked, found: str) -> Namespace:
        request, generation = asked.request, self.next_generation(namespace)
        lease = Lease(
            namespace=namespace.name,
            generation=generation,
            owner=request.owner,
            episode_id=request.episode_id,
            world=request.world,
            template_digest=asked.reader.digest,
            tools_digest=tools_digest(asked.tools),
            state_digest=found,
            past=asked.begins_with,
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


def _same_lease(held: Namespace, asked: Asked) -> Lease:
    if held.request != asked.request or held.lease is None or held.lease.past != asked.begins_with:
        raise BadInput(
            f"{asked.request.owner.workflow_id} holds {held.name} for another request",
            field="owner",
            fix="send the first request again, or give the namespace back before",
        )
    return held.lease
