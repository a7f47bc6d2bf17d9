"""The replacement world: a failed device, an approval, an order whose reply is lost."""
