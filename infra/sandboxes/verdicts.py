"""What the machine killed for want of memory."""

from infra.sandboxes.launching import Launched
from schemas.operation import SandboxReply


class MemoryVerdicts:
    """Which commands the machine ended for want of memory: decided once for each, so that it stays as it was."""

    def __init__(self) -> None:
        self._kills_before: dict[str, int] = {}
        self._verdicts: dict[str, bool] = {}

    def begin(self, op_id: str, kills: int) -> None:
        """The command is asked for, perhaps again; so many had been killed before."""
        self._kills_before.setdefault(op_id, kills)

    def judged(self, reply: SandboxReply, launched: Launched | None) -> SandboxReply:
        """The reply with the verdict: SIGKILL ended it, not its deadline, and the machine killed meanwhile."""
        ended = reply.exec
        if ended is None or ended.signal != "SIGKILL" or ended.timed_out or launched is None:
            return reply
        killed = launched.memory_kills() > self._kills_before[reply.op_id]
        verdict = self._verdicts.setdefault(reply.op_id, killed)
        return reply.model_copy(update={"exec": ended.model_copy(update={"out_of_memory": verdict})})
