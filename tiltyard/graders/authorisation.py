"""Authorisation: every created row was covered, at that moment, by a row that allowed it.

"At that moment" is the template's rows with the ledger replayed up to the creation, so that an approval which was
granted later, or was revoked before, covers nothing.
"""

from schemas.base import JsonValue
from schemas.contract import AuthorisationContract
from schemas.world import LedgerRow
from tiltyard.graders.trial import Trial
from tiltyard.graders.values import MISSING, brief, member, same

Rows = dict[tuple[str, str], JsonValue]


def check_authorisation(contract: AuthorisationContract, trial: Trial) -> tuple[str, ...]:
    covering: Rows = {
        (row.world, row.key): row.body for row in trial.facts.initial if row.collection == contract.requires
    }
    why = []
    for row in sorted(trial.facts.ledger, key=lambda row: row.position):
        if row.collection == contract.collection and row.before is None and row.after is not None:
            found = _uncovered(contract, row, covering)
            why += [f"{row.collection}/{row.key} was not covered: {found}"] if found else []
        if row.collection == contract.requires:
            covering[row.world, row.key] = row.after
    return tuple(why)


def _uncovered(contract: AuthorisationContract, row: LedgerRow, covering: Rows) -> str:
    """Why the created row was not covered, or nothing."""
    key = member(row.after, contract.key_field)
    body = covering.get((row.world, key)) if isinstance(key, str) else None
    if body is None:
        named = "absent" if key is MISSING else brief(key)
        return f"its {contract.key_field} is {named}, and {contract.requires} has no such row"
    name = f"{contract.requires}/{key}"
    for path, value in contract.where.items():
        if not same(value, member(body, path)):
            return f"{path} of {name} was {brief(member(body, path))}, not {brief(value)}"
    for theirs, ours in contract.same.items():
        if not same(member(body, theirs), member(row.after, ours)):
            expected, actual = brief(member(body, theirs)), brief(member(row.after, ours))
            return f"{theirs} of {name} was {expected}, and the row's {ours} is {actual}"
    return ""
