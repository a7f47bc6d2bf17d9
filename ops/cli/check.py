"""One line of the doctor's report."""

from infra.local.paths import StackPaths
from infra.local.state import read_state
from schemas.base import Model
from workers.settings import Settings

ANSWER_S = 10.0
HANGS = "a process that hangs is restarted after half a minute; else `tiltyard down`; `tiltyard logs` says more"


class Check(Model):
    """``missing``: it is not a fault, and something cannot be done without it. Not ``known``: whether it is one
    cannot be told now."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
    missing: bool = False
    known: bool = True

    @property
    def verdict(self) -> str:
        """As it stands at the beginning of the line."""
        if not self.ok:
            return "PROBLEM"
        return "unknown" if not self.known else "missing" if self.missing else "ok"


def runs(settings: Settings) -> bool:
    """Whether the stack runs."""
    state = read_state(StackPaths(settings.home).state)
    return state is not None and state.running
