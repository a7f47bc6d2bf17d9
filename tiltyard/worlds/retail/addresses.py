"""Tools that change where things go. The world comes first under another name: ``state`` is an argument here."""

from tiltyard.worlds.kit import State, tool
from tiltyard.worlds.retail.arguments import Address1, Address2, City, Country, OrderId, StateCode, UserId, Zip
from tiltyard.worlds.retail.entities import ORDERS, USERS, Address, Order, User
from tiltyard.worlds.retail.orders import require_pending, saved_order, saved_user


@tool(writes=True)
def modify_pending_order_address(
    world: State,
    order_id: OrderId,
    address1: Address1,
    address2: Address2,
    city: City,
    state: StateCode,
    country: Country,
    zip: Zip,
) -> Order:
    """Change where a pending order is sent, also after its items were modified. The user's address stays."""
    order = world.get(Order, ORDERS, order_id)
    require_pending(order)
    address = Address(address1=address1, address2=address2, city=city, state=state, country=country, zip=zip)
    return saved_order(world, order, address=address)


@tool(writes=True)
def modify_user_address(
    world: State,
    user_id: UserId,
    address1: Address1,
    address2: Address2,
    city: City,
    state: StateCode,
    country: Country,
    zip: Zip,
) -> User:
    """Change a user's own address. Orders that were placed already keep theirs."""
    user = world.get(User, USERS, user_id)
    address = Address(address1=address1, address2=address2, city=city, state=state, country=country, zip=zip)
    return saved_user(world, user, user.model_copy(update={"address": address}))
