"""Receipts: how often a tool took effect, and whether each effect has a receipt of its own."""

from schemas.contract import ReceiptContract
from tiltyard.graders.trial import Trial


def check_receipts(contract: ReceiptContract, trial: Trial) -> tuple[str, ...]:
    effects = [call for call in trial.effects if call.tool == contract.tool]
    why = []
    if not contract.at_least <= len(effects) <= contract.at_most:
        places = f" ({'; '.join(call.place for call in effects)})" if effects else ""
        times = f"{len(effects)} time{'' if len(effects) == 1 else 's'}"
        why.append(f"{contract.tool} took effect {times}{places}, expected {_expected(contract)}")
    if contract.operation_id_required:
        receipted = {receipt.delivery_id for receipt in trial.facts.receipts}
        why += [
            f"{call.tool} took effect without an operation id ({call.place})"
            for call in effects
            if call.delivery_id not in receipted
        ]
    return tuple(why)


def _expected(contract: ReceiptContract) -> str:
    least, most = contract.at_least, contract.at_most
    return f"{least}" if least == most else f"{least} to {most}"
