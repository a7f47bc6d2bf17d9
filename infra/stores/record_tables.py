"""Tables of episodes: plans, outcomes, journals; and of hosts. Documents are canonical JSON, as bytes."""

from sqlmodel import Field, SQLModel

__all__ = ["EpisodeTable", "HostTable", "JournalTable", "OutcomeTable", "TurnTable"]


class EpisodeTable(SQLModel, table=True):
    """A planned trial. ``ordinal`` is the order of planning; ``planned_s`` is Unix time in seconds."""

    __tablename__ = "episode"

    ordinal: int | None = Field(default=None, primary_key=True)
    episode_id: str = Field(unique=True)
    planned_s: float
    spec: bytes


class OutcomeTable(SQLModel, table=True):
    """The one outcome of an episode."""

    __tablename__ = "outcome"

    episode_id: str = Field(primary_key=True)
    result: bytes


class JournalTable(SQLModel, table=True):
    """The writer token of a journal (``tiltyard.journal_token.Token``). Every write locks this row first.

    ``inherited`` names the object with what a fork has of its parent beside its turns.
    """

    __tablename__ = "journal"

    episode_id: str = Field(primary_key=True)
    generation: int = Field(primary_key=True)
    token: bytes
    inherited: str | None = None


class TurnTable(SQLModel, table=True):
    """A journalled turn. ``shown`` is what its calls were answered, ``shown_object`` the name of the object that
    holds it instead when it is large; both are empty while the calls may be in flight. ``checkpoint`` names the
    object with the sandbox's files after the turn, where there is one."""

    __tablename__ = "turn"

    episode_id: str = Field(primary_key=True)
    generation: int = Field(primary_key=True)
    turn: int = Field(primary_key=True)
    decision: bytes
    shown: bytes | None = None
    shown_object: str | None = None
    faults: bytes = b"[]"
    now_s: int = 0
    checkpoint: str | None = None


class HostTable(SQLModel, table=True):
    """The last sign of life of a host of sandboxes; ``beat_s`` is Unix time in seconds."""

    __tablename__ = "host"

    task_queue: str = Field(primary_key=True)
    host: str = Field(primary_key=True)
    beat_s: float
    slots: int
    free: int
