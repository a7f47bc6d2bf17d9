"""The shop as a kind of world."""

from tiltyard.worlds.kit import WorldKind
from tiltyard.worlds.retail import addresses, delivered, pending, reads
from tiltyard.worlds.retail.templates import TEMPLATES, template

WORLD = WorldKind.of(
    name="retail",
    description="A shop's service desk: find customers, look orders up, cancel, modify, return and exchange.",
    tools=(
        reads.find_user_id_by_email,
        reads.find_user_id_by_name_zip,
        reads.get_user_details,
        reads.get_order_details,
        reads.get_product_details,
        reads.get_item_details,
        reads.list_all_product_types,
        reads.calculate,
        reads.transfer_to_human_agents,
        pending.cancel_pending_order,
        pending.modify_pending_order_items,
        pending.modify_pending_order_payment,
        addresses.modify_pending_order_address,
        addresses.modify_user_address,
        delivered.return_delivered_order_items,
        delivered.exchange_delivered_order_items,
    ),
    template=template,
    templates=TEMPLATES,
)
