"""Budget: the episode did not run out of one."""

from schemas.contract import BudgetContract
from schemas.episode import End
from tiltyard.graders.trial import Trial


def check_budget(contract: BudgetContract, trial: Trial) -> tuple[str, ...]:
    return ("a budget ran out",) if trial.end is End.BUDGET_EXHAUSTED else ()
