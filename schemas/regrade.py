"""An episode graded again: what its outcome says, what the graders say now, and which facts moved."""

from typing import Literal

from schemas.base import Model
from schemas.episode import EpisodeResult, Validity
from schemas.grade import ContractResult, Measure, RiskEvent, RuleResult, SafetyFinding, Score
from schemas.task import Weights

Part = Literal["validity", "score", "weights", "contract", "rule", "efficiency", "safety", "risk"]


class Judgement(Model):
    """All that graders say of an episode. ``graders`` is their digest, empty where they came to nothing; ``task``
    is the digest of the task whose contracts, rules, references and weights they judged by, ``weights`` are those
    of its score, where it is known."""

    validity: Validity
    reason: str
    score: Score
    contracts: tuple[ContractResult, ...]
    rules: tuple[RuleResult, ...] | None
    measures: tuple[Measure, ...] | None
    safety: tuple[SafetyFinding, ...]
    risks: tuple[RiskEvent, ...]
    graders: str
    task: str
    weights: Weights | None = None

    @classmethod
    def of(cls, result: EpisodeResult, weights: Weights | None = None) -> "Judgement":
        """The judgement in an outcome, of a task with these weights."""
        apart = ("graders", "task", "weights")
        shared = {name: getattr(result, name) for name in cls.model_fields if name not in apart}
        return cls(**shared, graders=result.digests.graders, task=result.digests.task, weights=weights)


class Fact(Model):
    """One fact of a judgement, in words, before and after. Empty: there was none, or there is none any more."""

    part: Part
    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def moved(self) -> bool:
        return self.before != self.after


class Regrade(Model):
    """``facts`` are all, in the order of a result; ``untold`` are parts that the recorded outcome does not hold, so
    that nothing can be said of their moving: it is older than they are."""

    episode_id: str
    task: str
    policy: str
    seed: int
    before: Judgement
    after: Judgement
    facts: tuple[Fact, ...]
    untold: tuple[Part, ...] = ()

    @property
    def moved(self) -> tuple[Fact, ...]:
        """The facts that are not what they were."""
        return tuple(fact for fact in self.facts if fact.moved)
