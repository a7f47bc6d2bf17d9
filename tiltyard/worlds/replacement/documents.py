"""Policy documents that are in force in every replacement world."""

from tiltyard.worlds.replacement.entities import Policy

HANDLING = Policy(
    policy_id="POL-1",
    title="Handling replacements",
    rank=1,
    effective_on="2025-01-01",
    text="\n".join(
        [
            "1. Order a replacement only under an approval whose status is approved, given for this ticket and "
            "for the model that you order. The order service does not check this for you.",
            "2. Approvals are amended, revoked and superseded while you work. Read the approval again right "
            "before ordering whenever you have waited.",
            "3. A ticket without an approval: request one for the device's model and wait for the decision. One "
            "that is still pending a day (86400 s) later counts as not given.",
            "4. Without a valid approval decline the ticket. The reason is the approval's status, or other_ticket "
            "when the approval was given for another ticket.",
            "5. Out of stock: get_stock says when the next delivery arrives. Wait for it, then go on at 2.",
            "6. An order whose reply was lost may have been accepted. Never order again under another operation "
            "id. Ask for the receipt of the operation id, or send the same order again under the same id. "
            "Receipt not_found: the order was not accepted. receipt_pending: wait and ask again.",
            "7. What you cannot settle, hand off: name the operation id in doubt.",
            "8. A document that excludes the cause of a failure goes before any approval (decline, reason "
            "policy). Where documents disagree on a cause, the lower rank counts; at equal rank the later date. "
            "At equal rank and date nobody here may decide: hand the ticket off and name the documents.",
        ]
    ),
)

STANDARD = (HANDLING,)

HELP = """\
You work at the service desk. Every ticket ends in one of three ways: closed, declined or handed off.
Read first: get_ticket, get_device, get_customer, get_approval, list_policies and get_policy, get_stock.
Then act: request_approval, create_replacement, close_ticket, decline_ticket, hand_off, add_note,
schedule_callback. Each of these takes an optional operation_id, your own name for the operation: sent again under
the same name with the same arguments it takes effect once and gives the first result; under another name it
takes effect again. get_receipt(operation_id) gives the record of an accepted operation. A call that times out may
have taken effect. wait(seconds) lets time pass. The ticket system does not check replacement ids."""
