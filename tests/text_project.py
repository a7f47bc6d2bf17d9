"""A project that is nothing but texts by path, on which scripts of code repair can be played without a sandbox."""

import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from schemas.base import JsonObject
from schemas.decision import Call, Decision
from schemas.observation import Observation
from tiltyard.policies.script import Brief, Script

TOOLS = frozenset({"shell", "read_file", "write_file"})
MOST = 100
"""Turns of a script."""


@dataclass
class TextProject:
    """``find`` lists its Python files, ``rm`` removes some, and any other command does nothing."""

    files: dict[str, str]
    tickets: Collection[str] = ()
    calls: list[Call] = field(default_factory=list)

    def play(self, script: Script | None, instruction: str, tools: frozenset[str] = TOOLS) -> Decision:
        """The script's last decision. The desk is there when it has tickets."""
        assert script is not None
        desk = frozenset({"get_ticket", "close_ticket"}) if self.tickets else frozenset()
        moves = script(Brief(instruction, tools | desk, seed=0))
        try:
            decision = next(moves)
            for _ in range(MOST):
                (made,) = decision.calls
                self.calls.append(made)
                decision = moves.send(self._shown(made))
        except StopIteration as end:
            last: Decision = end.value
            return last
        raise AssertionError(f"the script has no end: {self.calls}")

    def changed(self, before: Mapping[str, str]) -> dict[str, str]:
        """Files that are not as they were."""
        return {path: text for path, text in self.files.items() if before.get(path) != text}

    def commands(self) -> Iterator[str]:
        yield from (str(made.arguments["command"]) for made in self.calls if made.tool == "shell")

    def _shown(self, made: Call) -> Observation:
        content = self._done(made.tool, made.arguments)
        status: Literal["ok", "error"] = "error" if content is None else "ok"
        return Observation(tool=made.tool, status=status, content=content)

    def _done(self, tool: str, arguments: JsonObject) -> JsonObject | None:
        path = str(arguments.get("path", ""))
        match tool:
            case "shell":
                return {"exit_code": 0, "stdout": self._said(shlex.split(str(arguments["command"])))}
            case "read_file":
                return {"content": self.files[path]} if path in self.files else None
            case "write_file":
                self.files[path] = str(arguments["content"])
                return {"size": len(self.files[path])}
            case _:
                return {} if arguments["ticket_id"] in self.tickets else None

    def _said(self, words: list[str]) -> str:
        if words[0] == "rm":
            for path in words[1:]:
                del self.files[path]
        return "".join(f"./{path}\n" for path in sorted(self.files)) if words[0] == "find" else ""
