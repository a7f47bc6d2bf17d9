"""modify_pending_order_address and modify_user_address, sentence by sentence."""

import pytest

from .shop import ANN, AWAY, HOME, Shop, order


@pytest.mark.parametrize("status", ["pending", "pending (item modified)"])
def test_a_pending_order_goes_elsewhere(status: str) -> None:
    shop = Shop(order(status))
    shop.call("modify_pending_order_address", order_id="#1", **AWAY)
    assert shop.order["address"] == AWAY
    assert shop.order["status"] == status
    assert shop.user == ANN


@pytest.mark.parametrize("status", ["processed", "delivered", "cancelled", "exchange requested"])
def test_other_orders_do_not(status: str) -> None:
    assert Shop(order(status)).refused("modify_pending_order_address", order_id="#1", **AWAY) == "wrong_status"


def test_unknown_order_is_refused() -> None:
    assert Shop().refused("modify_pending_order_address", order_id="#1", **AWAY) == "not_found"


def test_a_user_moves_and_orders_do_not() -> None:
    shop = Shop(order("pending"))
    shop.call("modify_user_address", user_id="ann_lee_1", **AWAY)
    assert shop.user.address.model_dump() == AWAY
    assert shop.order["address"] == HOME.model_dump()


def test_unknown_user_is_refused() -> None:
    assert Shop().refused("modify_user_address", user_id="nobody", **AWAY) == "not_found"


@pytest.mark.parametrize("missing", sorted(AWAY))
def test_no_part_of_an_address_may_be_missing(missing: str) -> None:
    rest = {name: value for name, value in AWAY.items() if name != missing}
    assert Shop().refused("modify_user_address", user_id="ann_lee_1", **rest) == "bad_arguments"
