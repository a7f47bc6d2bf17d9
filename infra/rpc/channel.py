"""What server and client must agree on."""

from pathlib import Path

from infra.sockets import usable

MESSAGE_LIMIT_BYTES = 64 * 1024 * 1024

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", MESSAGE_LIMIT_BYTES),
    ("grpc.max_receive_message_length", MESSAGE_LIMIT_BYTES),
    ("grpc.max_metadata_size", 64 * 1024),
    # One attempt each: whoever calls decides when to send again.
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
)


def address_of(socket: Path) -> str:
    """A socket's gRPC address. Raises ``BadInput`` for a path that is too long for a socket."""
    return f"unix:{usable(socket.absolute())}"
