"""The conditions that an episode ran under, as plain values, and how those of two episodes differ, in words."""

from collections.abc import Iterator, Mapping

from schemas.base import JsonObject, JsonValue, canonical, sha256
from schemas.evidence import SandboxEvidence
from schemas.replay import Differing
from schemas.task import Task
from schemas.tool import ToolSpec
from tiltyard.episode.gateway import SANDBOX_LOST
from tiltyard.trace import Trace

MAX_WORDS = 160
"""Characters of one side of what differs."""

ABSENT = "none"

OF_THE_TASK = ("limits", "settle", "waiting", "polling_tools", "answers", "tools")
"""Parts of a task that decide what happens, besides its template, its faults and its sandbox."""


def environment_differs(left: Trace, right: Trace) -> tuple[Differing, ...]:
    """Whatever of the environments was not the same."""
    return tuple(differing(_environment(left), _environment(right)))


def judging_differs(left: Trace, right: Trace) -> tuple[Differing, ...]:
    """Whatever of the two tasks says what of an episode is compared, and what it is judged by. As both are compared
    by the left one's, it is the cause of no difference in what happened."""
    return tuple(differing(_judging(left.task), _judging(right.task)))


def _judging(task: Task) -> JsonObject:
    several = {"contracts": task.contracts, "process": task.process, "references": task.references}
    return {
        "sandbox": {"normalise": None if task.sandbox is None else list(task.sandbox.normalise)},
        "weights": task.weights.model_dump(mode="json"),
        **{
            name: {str(index): one.model_dump(mode="json") for index, one in enumerate(parts)}
            for name, parts in several.items()
        },
    }


def tools_differ(left: Trace, right: Trace) -> Mapping[str, tuple[Differing, ...]]:
    """How the tools of the two were not the same, by the tool's name."""
    one, other = ({tool.name: tool for tool in trace.tools} for trace in (left, right))
    found = {name: _tool_differs(name, one.get(name), other.get(name)) for name in sorted({*one, *other})}
    return {name: differing for name, differing in found.items() if differing}


def _tool_differs(name: str, left: ToolSpec | None, right: ToolSpec | None) -> tuple[Differing, ...]:
    if left is None or right is None:
        told = ("there", "not there") if right is None else ("not there", "there")
        return (Differing(what=f"tool {name}", left=told[0], right=told[1]),)
    return tuple(differing(left.model_dump(mode="json"), right.model_dump(mode="json"), f"tool {name}: "))


def _environment(trace: Trace) -> JsonObject:
    task, evidence = trace.task, trace.evidence
    dumped = task.model_dump(mode="json", include={*OF_THE_TASK, "template"})
    template, rows = dumped.pop("template"), evidence.facts.template_digest
    return {
        "world": task.world,
        "template": {"name": template["name"], "params": template["params"], "content": rows},
        "faults": faults_told(task),
        "seed": evidence.spec.seed,
        **dumped,
        "sandbox": _sandbox(trace),
        "begins with": _origin(trace),
    }


def faults_told(task: Task) -> JsonObject:
    """Each planned fault as a sentence by its number, so that one that moved reads as one."""
    told: JsonObject = {}
    for number, fault in enumerate(task.faults):
        when = f"call {fault.nth}" if fault.nth is not None else "every call"
        until = "" if fault.until_s is None else f" until {fault.until_s} s"
        window = f" from {fault.from_s} s{until}" if fault.from_s or until else ""
        delay = f" by {fault.delay_s} s" if fault.delay_s else ""
        error = f" ({fault.code}: {fault.message})" if fault.kind == "error_status" else ""
        told[str(number)] = f"{fault.kind}{delay} of {fault.tool} at {when}{window}{error}"
    return told


def _origin(trace: Trace) -> JsonValue:
    """A fork and its replay begin with the same turns: those of another episode."""
    kept = trace.evidence.spec.kept_turns
    return f"{kept} turns of another episode" if kept else None


def _sandbox(trace: Trace) -> JsonValue:
    plan, said = trace.task.sandbox, trace.evidence.sandbox
    if plan is None:
        return None
    dumped = plan.model_dump(mode="json", exclude={"normalise"})
    files = {path: _content(text) for path, text in dumped.pop("files").items()}
    return {
        "driver": trace.evidence.spec.sandbox,
        **dumped,
        "files": files,
        **({} if said is None else _made_of(trace, said)),
    }


def _content(text: JsonValue) -> str:
    return f"{sha256(canonical(text))[:19]}…"


def _made_of(trace: Trace, said: SandboxEvidence) -> JsonObject:
    """``image`` is that of the plan; what it was is its id."""
    given_up = len(said.earlier)
    return {
        "image id": said.facts.image or None,
        "held to": list(said.facts.enforced),
        "lost": losses(trace) or None,
        "given up in waits": given_up or None,
    }


def losses(trace: Trace) -> int:
    """Sandboxes of the episode that were lost, as far as its trace tells."""
    said = trace.evidence.sandbox
    if said is None:
        return 0
    replaced = max(0, said.facts.incarnation - 1 - len(said.earlier))
    told = any(shown.code == SANDBOX_LOST for turn in trace.evidence.turns for shown in turn.observations or ())
    return max(replaced + said.lost, int(told))


def differing(left: JsonValue, right: JsonValue, path: str = "") -> Iterator[Differing]:
    """The leaves of two values that differ, each with the path to it, on one line."""
    for where, one, other in leaves_that_differ(left, right, path):
        yield Differing(what=where, left=in_words(one), right=in_words(other))


def leaves_that_differ(
    left: JsonValue, right: JsonValue, path: str = ""
) -> Iterator[tuple[str, JsonValue, JsonValue]]:
    """(the path, what is there on the left, and on the right); the path of a whole value is empty."""
    if left == right:
        return
    if not (isinstance(left, dict) and isinstance(right, dict)):
        yield path.rstrip(".: "), left, right
        return
    for key in dict.fromkeys((*left, *right)):
        yield from leaves_that_differ(left.get(key), right.get(key), f"{path}{key}.")


def in_words(value: JsonValue) -> str:
    """A value on one line, cut where it is long."""
    if value is None:
        return ABSENT
    text = value if isinstance(value, str) else canonical(value).decode("utf-8", "replace")
    return text if len(text) <= MAX_WORDS else f"{text[:MAX_WORDS]}…"
