"""Operations: commands, reads and writes, each once."""

from __future__ import annotations

import binascii
import errno
import os

from infra.sandboxes.supervisor.commands import begin_exec, check_exec
from infra.sandboxes.supervisor.files import CODES, read_piece, write_whole
from infra.sandboxes.supervisor.limits import MAX_READ_BYTES
from infra.sandboxes.supervisor.messages import Failure, Refused, as_text, bad, is_no_utf8
from infra.sandboxes.supervisor.receipts import Operation
from infra.sandboxes.supervisor.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Operations:
    """All operations that were ever accepted, until the seal. ``tell`` sends a reply to one who waits."""

    def __init__(self, sandbox: Sandbox, tell: Callable[[tuple[int, int], bytes], None]) -> None:
        self.sandbox, self.tell = sandbox, tell
        self.known: dict[str, Operation] = {}
        self.sealed, self.refused = False, 0

    def call(self, number: tuple[int, int], request: dict[str, Any]) -> bytes | None:
        """An operation: its recorded reply, or later its reply, whoever asked first."""
        wanted, digest = request["request"], request["digest"]
        op_id = wanted["op_id"]
        operation = self.known.get(op_id)
        if operation is None:
            operation = self.accept(wanted, digest)
        elif operation.digest != digest:
            raise Failure("DeliveryConflict", f"{op_id} was asked before with another request")
        if operation.ended:
            return self.sandbox.journal.read(operation.reply)
        operation.askers.append(number)
        return None

    def accept(self, wanted: dict[str, Any], digest: str) -> Operation:
        op_id, (check, begin) = wanted["op_id"], KINDS[wanted["do"]]
        if not isinstance(op_id, str) or not isinstance(digest, str) or is_no_utf8(op_id):
            raise bad("is no id of an operation", "op_id")
        if self.sealed:
            self.refused += 1
            self.sandbox.journal.write("refused", op=op_id, digest=digest)
            raise Failure("LateWrite", f"{op_id} came after the seal")
        operation = Operation(wanted, digest, self.sandbox.journal, self.tell)
        ready = check(wanted)  # raises for what is no request, before anything is recorded
        self.known[op_id] = operation
        operation.accept()
        self.sandbox.dealings.advance(int(wanted.get("elsewhere_s", 0)))
        try:
            begin(self.sandbox, operation, *ready)
        except Refused as refused:
            operation.end({"code": refused.code, "message": refused.message})
        return operation

    def seal(self, number: tuple[int, int], request: dict[str, Any]) -> dict[str, Any]:
        """Refuse whatever is new from here on, and record who is there."""
        if not self.sealed:
            self.sealed = True
            programs = self.sandbox.programs
            self.sandbox.journal.write("sealed")
            programs.on_all_calls()
            programs.look_around(self.sandbox.reach.others(), left=True)
        return {}


def check_path(wanted: dict[str, Any]) -> None:
    if not isinstance(wanted["path"], str) or is_no_utf8(wanted["path"]):
        raise bad("is no path", "path")


def check_read(wanted: dict[str, Any]) -> tuple[int, int]:
    check_path(wanted)
    return int(wanted.get("offset", 0)), min(int(wanted.get("limit", 65_536)), MAX_READ_BYTES)


def check_write(wanted: dict[str, Any]) -> tuple[bytes, int]:
    check_path(wanted)
    return binascii.a2b_base64(wanted["content"]), int(wanted.get("mode", 0o644)) & 0o777


def begin_read(sandbox: Sandbox, operation: Operation, offset: int, limit: int) -> None:
    def act() -> dict[str, Any]:
        piece, size = read_piece(sandbox.work, operation.path, offset, limit)
        return {"read": {"content": as_text(piece), "size": size}}

    at_once(sandbox, operation, act)


def begin_write(sandbox: Sandbox, operation: Operation, content: bytes, mode: int) -> None:
    def act() -> dict[str, Any]:
        write_whole(sandbox.work, operation.path, content, mode)
        return {"write": {"size": len(content)}}

    at_once(sandbox, operation, act)


def at_once(sandbox: Sandbox, operation: Operation, act: Callable[[], dict[str, Any]]) -> None:
    """Act as the agent, and end the operation with what comes of it."""
    sandbox.marks.collect()
    operation.start()
    try:
        with sandbox.agent:
            outcome = act()
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None) or errno.EINVAL
        raise Refused(CODES.get(number, "denied"), f"{operation.path}: {os.strerror(number)}") from None
    finally:
        sandbox.marks.collect(op_id=operation.op_id)
    operation.end(outcome)


KINDS: dict[str, tuple[Callable[..., tuple[Any, ...]], Callable[..., None]]] = {
    "exec": (check_exec, begin_exec),
    "read": (check_read, begin_read),
    "write": (check_write, begin_write),
}
"""How each kind is checked, before anything is recorded, and begun with what the check returned."""
