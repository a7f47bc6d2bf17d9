"""Cases that a world is verified with, and what came of it."""

from pydantic import ConfigDict, JsonValue

from schemas.base import JsonObject, Model


class CaseStep(Model):
    """One call and what a correct world does: succeed or refuse, and what a read answers.

    ``result`` is given for reads that succeed; ``null`` is not compared, and stands there for writes.
    """

    tool: str
    arguments: JsonObject
    ok: bool
    result: JsonValue = None


class Case(Model):
    """A sequence of calls on a fresh namespace and the complete end state of every entity that it changes.

    ``changed`` maps collection and key to the body; what is not listed is unchanged. Other fields of a case file
    are for its readers and are not looked at. ``line`` is where it stands, from 1.
    """

    model_config = ConfigDict(extra="ignore")

    id: str
    kind: str = ""
    steps: tuple[CaseStep, ...]
    changed: dict[str, dict[str, JsonValue]]
    line: int = 0


class Mismatch(Model):
    """One place where the world differs from a case. ``step`` counts from 1; 0 is the end state.

    ``where`` is a dotted path into the result or the end state; ``expected`` and ``got`` are JSON text or words.
    """

    case: str
    step: int = 0
    tool: str = ""
    where: str = ""
    expected: str
    got: str

    def __str__(self) -> str:
        place = f"step {self.step} {self.tool}" if self.step else "end state"
        where = f" {self.where}" if self.where else ""
        return f"{self.case}: {place}{where}: expected {self.expected}, got {self.got}"


class CaseResult(Model):
    """One case's mismatches; none when it passed."""

    id: str
    kind: str = ""
    mismatches: tuple[Mismatch, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.mismatches


class VerifyReport(Model):
    """All cases, in the file's order."""

    world: str
    template_digest: str
    results: tuple[CaseResult, ...]

    @property
    def passed(self) -> int:
        return sum(result.passed for result in self.results)

    @property
    def ok(self) -> bool:
        return self.passed == len(self.results)

    @property
    def summary(self) -> str:
        return f"{self.passed} of {len(self.results)}"
