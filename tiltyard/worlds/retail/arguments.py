"""The arguments that several tools share, each described once."""

from typing import Annotated

from pydantic import Field

UserId = Annotated[str, Field(description="The user's id, such as 'ada_lund_4821'.")]
OrderId = Annotated[str, Field(description="The order's id, with its '#', such as '#W0428113'.")]
ProductId = Annotated[str, Field(description="The id of a type of product. Not an item id.")]
ItemId = Annotated[str, Field(description="The id of one variant of a product. Not a product id.")]
ItemIds = Annotated[
    list[str],
    Field(description="Item ids of the order's lines, each as often as lines with it are meant."),
]
NewItemIds = Annotated[
    list[str],
    Field(description="The new item ids, one for each of item_ids and in the same order."),
]
PaymentMethodId = Annotated[
    str, Field(description="One of the user's payment methods, such as 'gift_card_0042719'; see get_user_details.")
]
Address1 = Annotated[str, Field(description="First line of the address: number and street.")]
Address2 = Annotated[str, Field(description="Second line of the address; '' when there is none.")]
City = Annotated[str, Field(description="City.")]
StateCode = Annotated[str, Field(description="State, such as 'CO'.")]
Country = Annotated[str, Field(description="Country, such as 'USA'.")]
Zip = Annotated[str, Field(description="Zip code.")]
