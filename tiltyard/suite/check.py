"""Checks of a task that the model alone cannot make: against the world's tools and its template."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pydantic import ValidationError

from schemas.base import JsonObject
from schemas.contract import (
    AnswerContract,
    Contract,
    ProcessContract,
    ProcessRule,
    ReceiptContract,
    StateContract,
)
from schemas.sandbox import IMAGE_REFERENCE, SandboxLimits
from schemas.task import WAIT, Reference, Step, Task
from tiltyard.errors import BadInput, BadTask
from tiltyard.references import expressions, resolve, step_of
from tiltyard.sandbox.tools import TOOLS, inside_tools
from tiltyard.suite.commands import refused
from tiltyard.suite.examinable import examinable
from tiltyard.suite.explain import joined, nearest
from tiltyard.suite.families import Suite
from tiltyard.suite.practice import practise, stage
from tiltyard.suite.remedies import remedy, said
from tiltyard.worlds.builtin import with_engine_tools
from tiltyard.worlds.kit import Tool, WorldKind


def check_suite(suite: Suite, worlds: Mapping[str, WorldKind]) -> tuple[BadTask, ...]:
    """Everything that is wrong with a suite's files and tasks; nothing is an empty tuple.

    A task that is well formed is also played, in this process: see ``practise``. Not to be called from a running
    event loop.
    """
    engine = stage(worlds)
    found: list[BadTask] = []
    for task in suite.each():
        if isinstance(task, BadTask):
            found.append(task)
        else:
            found += check_in(task, worlds) or practise(task, engine)
    return tuple(found)


def check_in(task: Task, worlds: Mapping[str, WorldKind]) -> tuple[BadTask, ...]:
    """Everything that is wrong with one task, its world included, without playing it."""
    if task.world not in worlds:
        return (BadTask("no such world", field=joined(task.id, "world"), fix=nearest(task.world, worlds)),)
    return check_task(task, worlds[task.world])


def check_task(task: Task, kind: WorldKind) -> tuple[BadTask, ...]:
    """Everything that is wrong with one task of the world ``kind``, each with the field and the fix."""
    kind = _with_tools(task, kind)
    found = (_tools(task, kind), _image(task), _template(task, kind), _references(task, kind), examinable(task))
    return tuple(BadTask(p.message, field=joined(task.id, p.field), fix=p.fix) for part in found for p in part)


def _with_tools(task: Task, kind: WorldKind) -> WorldKind:
    """The world with all tools that the task's agent is offered."""
    kind = with_engine_tools(kind)
    return kind if task.sandbox is None else replace(kind, tools={**kind.tools, **TOOLS})


def _tools(task: Task, kind: WorldKind) -> Iterator[BadInput]:
    """Every tool that a task names is the world's and, the allow-list aside, on the allow-list."""
    known = set(kind.tools)
    for index, name in enumerate(task.tools):
        if name not in known:
            yield _unknown_tool(f"tools.{index}", name, known, "the world")
    yield from _exposed(task, known - {*TOOLS, WAIT})
    offered = (set(task.tools) & known) or known
    offered |= set(inside_tools(task)) & known
    for path, name in _named_tools(task):
        if name not in offered:
            yield _unknown_tool(path, name, offered, "tools" if task.tools else "the world")


def _exposed(task: Task, known: set[str]) -> Iterator[BadInput]:
    """Every tool that programs in the sandbox can call is the world's own."""
    for service, tools in task.sandbox.exposes.items() if task.sandbox is not None else ():
        for index, name in enumerate(tools):
            if name not in known:
                yield _unknown_tool(f"sandbox.exposes.{service}.{index}", name, known, "the world")


def _image(task: Task) -> Iterator[BadInput]:
    """The image is one that an engine can be asked for, whether or not it has it."""
    if task.sandbox is not None and not IMAGE_REFERENCE.fullmatch(task.sandbox.image):
        fix = "write the name of one that is built, or REGISTRY/NAME:TAG, such as debian:12-slim"
        yield BadInput(f"{task.sandbox.image!r} is no image's reference", field="sandbox.image", fix=fix)


def _unknown_tool(path: str, name: str, known: set[str], where: str) -> BadInput:
    return BadInput(f"{where} has no tool {name!r}", field=path, fix=nearest(name, known))


def _named_tools(task: Task) -> Iterator[tuple[str, str]]:
    for index, fault in enumerate(task.faults):
        yield f"faults.{index}.tool", fault.tool
    for index, name in enumerate(task.polling_tools):
        yield f"polling_tools.{index}", name
    for index, contract in enumerate(task.contracts):
        yield from _contract_tools(f"contracts.{index}", contract)
    for index, rule in enumerate(task.process):
        yield from _rule_tools(f"process.{index}", rule)


def _contract_tools(path: str, contract: Contract) -> Iterator[tuple[str, str]]:
    match contract:
        case ReceiptContract():
            yield f"{path}.tool", contract.tool
        case AnswerContract():
            for field, names in contract.evidence.items():
                yield from ((f"{path}.evidence.{field}", name) for name in names)
            yield from ((f"{path}.looked_up", name) for name in contract.looked_up)
        case ProcessContract():
            for index, rule in enumerate(contract.rules):
                yield from _rule_tools(f"{path}.rules.{index}", rule)
        case _:
            return


def _rule_tools(path: str, rule: ProcessRule) -> Iterator[tuple[str, str]]:
    for field in ("call", "before", "if_done"):
        matched = getattr(rule, field)
        if matched is not None:
            yield f"{path}.{field}.tool", matched.tool


def _template(task: Task, kind: WorldKind) -> Iterator[BadInput]:
    """The template takes the parameters, and rows that are to be updated or deleted are there."""
    try:
        template = kind.template(task.template.name, task.template.params)
    except BadInput as error:
        yield error
        return
    for path, collection, key in _starting_rows(task):
        if collection not in template.rows:
            fix = nearest(collection, template.rows)
            yield BadInput(f"the template has no collection {collection!r}", field=f"{path}.collection", fix=fix)
        elif key is not None and key not in template.rows[collection]:
            fix = nearest(key, template.rows[collection])
            yield BadInput(f"the template has no {collection} row {key!r}", field=f"{path}.key", fix=fix)


def _starting_rows(task: Task) -> Iterator[tuple[str, str, str | None]]:
    """Rows that a task takes for granted: (path, collection, key)."""
    for index, contract in enumerate(task.contracts):
        path = f"contracts.{index}"
        if not isinstance(contract, StateContract):
            continue
        lists = [(f"{path}.outcomes.{n}.changes", outcome.changes) for n, outcome in enumerate(contract.outcomes)]
        for where, changes in (*lists, (f"{path}.side_effects", contract.side_effects)):
            for n, change in enumerate(changes):
                if change.change != "created":
                    yield f"{where}.{n}", change.collection, change.key


def _references(task: Task, kind: WorldKind) -> Iterator[BadInput]:
    limits = task.sandbox.limits if task.sandbox else None
    offered = {name: tool for name, tool in kind.tools.items() if not task.tools or name in task.tools}
    for index, reference in enumerate(task.references):
        yield from _reference(f"references.{index}.steps", reference, offered, limits)


def _reference(
    path: str, reference: Reference, tools: Mapping[str, Tool], limits: SandboxLimits | None
) -> Iterator[BadInput]:
    named: set[str] = set()
    for index, step in enumerate(reference.steps):
        where = f"{path}.{index}"
        yield from _expressions(where, step, named)
        if step.tool is not None and step.tool in tools:
            for problem in _arguments(step, tools[step.tool], limits):
                yield BadInput(problem.message, field=f"{where}.arguments.{problem.field}", fix=problem.fix)
        elif step.tool is not None:
            yield _unknown_tool(f"{where}.tool", step.tool, set(tools), "the task")
        if step.name in named:
            yield BadInput(f"two steps are named {step.name!r}", field=f"{where}.name", fix="rename one")
        named |= {step.name} - {""}
        if (step.tool is None) != (index == len(reference.steps) - 1):
            what = "the last step calls a tool" if step.tool else "steps follow after the end"
            yield BadInput(what, field=where, fix="end with one submit or give_up")


def _expressions(where: str, step: Step, named: set[str]) -> Iterator[BadInput]:
    for path in expressions([step.arguments, step.submit]):
        try:
            name = step_of(path)
        except BadInput as error:
            yield BadInput(error.message, field=f"{where}: {error.field}", fix=error.fix)
            continue
        if name not in named:
            yield BadInput(
                f"no earlier step is named {name!r}", field=f"{where}: ${{{path}}}", fix=nearest(name, named)
            )


def _arguments(step: Step, tool: Tool, limits: SandboxLimits | None) -> Iterator[BadInput]:
    """Arguments fit the tool's schema, and its sandbox; those that only a run can fill in are not judged."""
    if step.fails:
        return
    late = {name for name, value in step.arguments.items() if any(True for _ in expressions(value))}
    arguments = _plain(step.arguments)
    try:
        tool.arguments.model_validate(arguments)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            unknown = details["type"] == "extra_forbidden"
            if details["loc"] and (unknown or details["loc"][0] not in late):
                path = ".".join(str(part) for part in details["loc"])
                yield BadInput(
                    said(details), field=path, fix=remedy(details) or f"see the arguments of {step.tool}"
                )
    if limits is not None and step.tool in TOOLS:
        yield from refused(tool, arguments, late, limits)


def _plain(arguments: JsonObject) -> JsonObject:
    """Arguments with ``$${`` as the world will get it; expressions stay."""
    return {
        name: value if any(True for _ in expressions(value)) else resolve(value, {})
        for name, value in arguments.items()
    }
