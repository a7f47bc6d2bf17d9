"""The system calls that a container may not make, as the profile that Docker takes.

Drawn from the same tables as the filter of other sandboxes, so that a command meets the same refusals everywhere.
"""

import errno
import json
from typing import Any

from infra.sandboxes.seccomp import (
    MISSING,
    NEW_NAMESPACES,
    OF_A_PROCESS,
    OF_A_USER,
    REFUSED,
    SOCKET_FAMILIES,
    SUPERVISOR,
    TERMINAL_INPUT,
)

QUEUES = ("mq_open",)
"""Message queues have names that outlive their makers, and a sandbox that is used again must not have them."""

ARCHITECTURES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}


def profile(machine: str) -> str:
    """JSON for ``security_opt``: whatever is not refused is allowed, and other architectures are not."""
    rules = [
        _refused(list(REFUSED), errno.EPERM),
        _refused([*MISSING, *QUEUES], errno.ENOSYS),
        *(_refused([name], errno.EPERM, _is(0, SUPERVISOR)) for name in OF_A_PROCESS),
        *(_refused([name], errno.EPERM, _is(0, user)) for name, (_, user) in OF_A_USER.items()),
        *(_refused([name], errno.EPERM, _is(1, SUPERVISOR)) for name in OF_A_USER),
        *(_refused(["ioctl"], errno.EPERM, _is(1, number)) for number in TERMINAL_INPUT),
        *(_refused(["clone"], errno.EPERM, _masked(0, bit, bit)) for bit in _bits(NEW_NAMESPACES)),
        *_families(),
    ]
    whole = {"defaultAction": "SCMP_ACT_ALLOW", "architectures": [ARCHITECTURES[machine]], "syscalls": rules}
    return json.dumps(whole)


def _families() -> list[dict[str, Any]]:
    """Rules are joined by "or": each number that lies between the allowed ones is refused by itself."""
    most = max(SOCKET_FAMILIES)
    refused = [_is(0, number) for number in range(most) if number not in SOCKET_FAMILIES]
    refused.append({"index": 0, "value": most, "op": "SCMP_CMP_GT"})
    return [_refused(["socket", "socketpair"], errno.EAFNOSUPPORT, one) for one in refused]


def _refused(names: list[str], number: int, *arguments: dict[str, Any]) -> dict[str, Any]:
    return {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": number, "args": list(arguments)}


def _is(index: int, value: int) -> dict[str, Any]:
    """The kernel ignores the high half of these arguments, and a rule that did not could be gone around by it."""
    return _masked(index, 0xFFFFFFFF, value)


def _masked(index: int, mask: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _bits(mask: int) -> list[int]:
    return [1 << place for place in range(mask.bit_length()) if mask >> place & 1]
