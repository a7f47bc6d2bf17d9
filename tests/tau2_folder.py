"""A small folder as τ²-bench writes them, over the generated shop: a task for each way of grading."""

import copy
import json
from pathlib import Path
from typing import Any

from tiltyard.worlds.registry import worlds

POLICY = "# Shop policy\nVerify who calls before you change anything.\n"

SHOP: dict[str, dict[str, Any]] = {
    collection: {key: json.loads(body) for key, body in rows.items()}
    for collection, rows in worlds()["retail"].template("default", {}).rows.items()
}


def an_order(status: str) -> dict[str, Any]:
    """The first order of this status."""
    found: dict[str, Any] = next(order for order in SHOP["orders"].values() if order["status"] == status)
    return found


PENDING, DELIVERED = an_order("pending"), an_order("delivered")
USER = SHOP["users"][PENDING["user_id"]]
PRODUCT = next(iter(SHOP["products"].values()))


def action(name: str, /, requestor: str | None = None, **arguments: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"action_id": f"{name}_1", "name": name, "arguments": arguments, "info": None}
    return made if requestor is None else {**made, "requestor": requestor}


FIND = action(
    "find_user_id_by_name_zip",
    first_name=USER["name"]["first_name"],
    last_name=USER["name"]["last_name"],
    zip=USER["address"]["zip"],
)
CANCEL = action("cancel_pending_order", order_id=PENDING["order_id"], reason="no longer needed")
REFUSED = action("cancel_pending_order", order_id=DELIVERED["order_id"], reason="no longer needed")
LOOK = action("get_product_details", product_id=PRODUCT["product_id"])
HAND_OVER = action("transfer_to_human_agents", summary="They ask for ${what} we cannot do.")


def task(name: str, *actions: dict[str, Any], facts: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    """A task in the source's own shape; ``fields`` replace whole members."""
    made = {
        "id": name,
        "description": {"purpose": f"the task {name}", "relevant_policies": None, "notes": None},
        "user_scenario": {
            "persona": None,
            "instructions": {
                "domain": "retail",
                "reason_for_call": f"You want what {name} is about: {{{{ this }}}} is no template.",
                "known_info": f"You are {USER['user_id']}.",
                "unknown_info": None,
                "task_instructions": "Be brief.",
            },
        },
        "initial_state": None,
        "evaluation_criteria": {
            "actions": copy.deepcopy(list(actions)),
            "communicate_info": list(facts),
            "nl_assertions": None,
            "reward_basis": ["DB", "COMMUNICATE"],
        },
    }
    return {**made, **fields}


def move(**changed: str) -> dict[str, Any]:
    return action("modify_user_address", user_id=USER["user_id"], **{**USER["address"], **changed})


def all_kinds() -> list[dict[str, Any]]:
    """A task for each way of grading, by the name of that way."""
    return [
        task("changed", FIND, CANCEL),
        task("told", LOOK, facts=("1,481.50", PRODUCT["name"].upper())),
        task("only-told", facts=("polyester",)),
        task("stumbling", action("find_user_id_by_email", email="nobody@example.com"), CANCEL),
        task("refused", FIND, REFUSED),
        task("handed-over", FIND, HAND_OVER),
        task("looked", FIND, LOOK),
        task("there-and-back", move(city="Elsewhere"), move()),
        task("nothing"),
    ]


def write_folder(folder: Path, tasks: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "db.json").write_text(json.dumps(SHOP), encoding="utf-8")
    (folder / "policy.md").write_text(POLICY, encoding="utf-8")
    (folder / "tasks.json").write_text(tasks if isinstance(tasks, str) else json.dumps(tasks), encoding="utf-8")
    return folder
