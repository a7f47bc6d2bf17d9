"""What must hold in every state of the effect protocol: I1, I2 and I3."""

from tiltyard.testing.effect_protocol import FIRST, SECOND, EffectProtocol, State
from tiltyard.worlds.rows import Partition

RECYCLED = 4
"""Steps of the workflow after which the first episode's rows are gone."""


class Promises:
    """Says what is wrong with a state; equal worlds and journals are looked at once."""

    def __init__(self, protocol: EffectProtocol) -> None:
        self._protocol = protocol
        self._worlds: dict[int, str] = {}
        self._told: dict[tuple[int, int], str] = {}

    def check(self, state: State) -> str:
        """Empty when all promises hold."""
        return state.flaw or self._effects(state.world) or self._reading(state) or self._journal(state)

    def _effects(self, world: int) -> str:
        """I1 and I3."""
        if world not in self._worlds:
            first = self._protocol.fence
            later = (first._replace(generation=first.generation + further) for further in range(1, 4))
            found = [
                self._generation(world, first, FIRST),
                *(self._generation(world, one, SECOND) for one in later),
            ]
            self._worlds[world] = next(filter(None, found), "")
        return self._worlds[world]

    def _generation(self, world: int, partition: Partition, episode: str) -> str:
        """One record a delivery, one effect a record or job, and nothing of another episode's."""
        recorded = self._protocol.worlds.deliveries(world, partition)
        causes = [effect.cause for effect in self._protocol.worlds.ledger(world, partition)]
        if len(set(causes)) < len(causes):
            return f"I1: several effects of one cause: {[cause.id for cause in causes]}"
        strangers = [cause.id for cause in causes if cause.kind == "delivery" and cause.id not in recorded]
        if strangers:
            return f"I1: effects without a record: {strangers}"
        foreign = [name for name in recorded if not name.startswith(episode)]
        return f"I3: {episode} holds {foreign}" if foreign else ""

    def _reading(self, state: State) -> str:
        """I2: from the seal on each delivery is recorded or absent, for good."""
        if state.sealed is None or state.ended >= RECYCLED:
            return ""
        recorded = self._protocol.worlds.deliveries(state.world, self._protocol.fence)
        changed = sorted(state.sealed ^ recorded.keys())
        return f"I2: recorded after the seal: {changed}" if changed else ""

    def _journal(self, state: State) -> str:
        """I2: what the journal says that a call was answered is what the world has recorded of it."""
        if state.ended >= RECYCLED:
            return ""
        pair = state.world, state.journal
        if pair not in self._told:
            self._told[pair] = self._compared(*pair)
        return self._told[pair]

    def _compared(self, world: int, journal: int) -> str:
        recorded = self._protocol.worlds.deliveries(world, self._protocol.fence)
        for turn in self._protocol.journals.turns(journal, FIRST, self._protocol.lease.generation):
            for observation in turn.observations or ():
                record = recorded.get(f"{FIRST}/{turn.turn}")
                if record is None or record.reply is None or record.reply.shown.status != observation.status:
                    return f"I2: the journal says {observation.status} of turn {turn.turn}, and the world does not"
        return ""
