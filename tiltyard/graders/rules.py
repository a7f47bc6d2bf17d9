"""Process rules: how the work was done. Each is judged over the agent's calls in order."""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

from schemas.contract import CallMatch, ProcessContract, ProcessRule
from schemas.grade import RuleResult
from tiltyard.graders.trial import AgentCall, Trial
from tiltyard.graders.values import MISSING, brief, member, same, shown

RECEIPT_TOOL = "get_receipt"
"""The engine's tool that tells whether an operation id was accepted."""

Verdict = tuple[bool, str]
"""(triggered, why it did not hold; empty when it held)."""


def judge(rule: ProcessRule, trial: Trial) -> RuleResult:
    """One rule's result. ``held`` is judged even when the rule was not triggered."""
    triggered, why = RULES[rule.rule](rule, trial)
    return RuleResult(rule=_name(rule), triggered=triggered, held=not why, weight=rule.weight, why=why)


def check_process(contract: ProcessContract, trial: Trial) -> tuple[str, ...]:
    results = [judge(rule, trial) for rule in contract.rules]
    return tuple(f"{result.rule}: {result.why}" for result in results if not result.held)


def process_score(results: tuple[RuleResult, ...], trial: Trial) -> float:
    """P: the weight of the triggered rules that held over the weight of all triggered ones.

    Without any call P is 0, since nothing was done well; with calls and no triggered rule it is 1.
    """
    if not trial.calls:
        return 0.0
    triggered = [result for result in results if result.triggered]
    if not triggered:
        return 1.0
    return sum(result.weight for result in triggered if result.held) / sum(result.weight for result in triggered)


def matching(wanted: CallMatch | None, trial: Trial) -> list[int]:
    """Places in ``trial.calls`` of the calls that match."""
    return [] if wanted is None else [at for at, call in enumerate(trial.calls) if _matches(wanted, call)]


def _matches(wanted: CallMatch, call: AgentCall) -> bool:
    return (
        call.tool == wanted.tool
        and (not wanted.status or call.status in wanted.status)
        and all(same(value, call.arguments.get(name, MISSING)) for name, value in wanted.arguments.items())
        and all(_like(call.arguments.get(name), glob) for name, glob in wanted.like.items())
    )


def _like(value: object, glob: str) -> bool:
    return isinstance(value, str) and fnmatchcase(value, glob)


def _require(rule: ProcessRule, trial: Trial) -> Verdict:
    missing = f"it never happened{_conditions(rule.call)}" if rule.call else ""
    return bool(trial.calls), "" if matching(rule.call, trial) else missing


def _forbid(rule: ProcessRule, trial: Trial) -> Verdict:
    done = matching(rule.call, trial)
    triggered = bool(done or matching(rule.if_done, trial))
    return triggered, f"it happened ({trial.calls[done[0]].place})" if done else ""


def _order(rule: ProcessRule, trial: Trial) -> Verdict:
    done, before = matching(rule.call, trial), matching(rule.before, trial)
    early = [at for at in done if not any(earlier < at for earlier in before)]
    why = f"{_told(rule.before)} did not come before {trial.calls[early[0]].place}" if early and rule.before else ""
    return bool(done), why


def _at_most(rule: ProcessRule, trial: Trial) -> Verdict:
    done = matching(rule.call, trial)
    return bool(done), f"it happened {len(done)} times, at most {rule.n} are right" if len(done) > rule.n else ""


def _reconcile_before_retry(rule: ProcessRule, trial: Trial) -> Verdict:
    lost = [at for at in matching(rule.call, trial) if trial.calls[at].status == "timeout"]
    rash = [at for at in lost if not _reconciled(trial.calls[at], trial.calls[at + 1 :])]
    why = f"after the lost reply at {trial.calls[rash[0]].place} came another effect of it" if rash else ""
    return bool(lost), why


def _reconciled(lost: AgentCall, later: tuple[AgentCall, ...]) -> bool:
    """Whether the outcome of a lost call was settled before another effect of its tool, or there was none."""
    for call in later:
        if lost.operation_id is not None and _settles(call, lost):
            return True
        if call.effect and call.tool == lost.tool:
            return False
    return True


def _settles(call: AgentCall, lost: AgentCall) -> bool:
    """The same operation sent again, or its receipt asked for with an answer that is one."""
    if call.operation_id != lost.operation_id:
        return False
    answered = call.status == "ok" or call.code == "not_found"
    return call.tool == lost.tool or (call.tool == RECEIPT_TOOL and answered)


def _strategy_change_after(rule: ProcessRule, trial: Trial) -> Verdict:
    failed = {at for at in matching(rule.call, trial) if trial.calls[at].status == "error"}
    runs = [at for at in sorted(failed) if all(at - back in failed for back in range(rule.n))]
    stubborn = [at for at in runs if at + 1 < len(trial.calls) and _alike(*trial.calls[at : at + 2])]
    why = f"the call at {trial.calls[stubborn[0]].place} was made again unchanged" if stubborn else ""
    return bool(runs), why


def _alike(a: AgentCall, b: AgentCall) -> bool:
    return a.tool == b.tool and same(a.arguments, b.arguments)


def _claim_needs_evidence(rule: ProcessRule, trial: Trial) -> Verdict:
    values = {path: member(trial.answer, path) for path in rule.fields}
    claimed = {path: value for path, value in values.items() if value is not MISSING and value is not None}
    contents = [
        call.content
        for call in trial.calls
        if call.status == "ok" and (rule.call is None or _matches(rule.call, call))
    ]
    unshown = [path for path, value in claimed.items() if not shown(value, contents)]  # type: ignore[arg-type]
    why = f"{unshown[0]} = {brief(claimed[unshown[0]])} was never shown" if unshown else ""
    return bool(claimed), why


RULES: Mapping[str, Callable[[ProcessRule, Trial], Verdict]] = {
    "require": _require,
    "forbid": _forbid,
    "order": _order,
    "at_most": _at_most,
    "reconcile_before_retry": _reconcile_before_retry,
    "strategy_change_after": _strategy_change_after,
    "claim_needs_evidence": _claim_needs_evidence,
}
"""Every rule by its name."""


def _name(rule: ProcessRule) -> str:
    return f"{rule.rule} {_called(rule.call) if rule.call else ', '.join(rule.fields)}"


def _called(wanted: CallMatch) -> str:
    return wanted.tool + (f" {brief(wanted.arguments)}" if wanted.arguments else "")


def _told(wanted: CallMatch) -> str:
    """The calls that are meant, with all that they must have: one that lacks some of it may well have been made."""
    return _called(wanted) + _conditions(wanted)


def _conditions(wanted: CallMatch) -> str:
    like = " and ".join(f"{name} like {brief(glob)}" for name, glob in wanted.like.items())
    return (f" with {like}" if like else "") + (
        f" with the status {' or '.join(wanted.status)}" if wanted.status else ""
    )
