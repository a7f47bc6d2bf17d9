"""World tables: namespaces, rows, deliveries, ledger, late writes."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _partition() -> list[sa.Column[object]]:
    return [
        sa.Column("namespace", sa.String(), primary_key=True),
        sa.Column("generation", sa.Integer(), primary_key=True),
    ]


def upgrade() -> None:
    op.create_table(
        "namespace",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("lease_generation", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), unique=True),
        sa.Column("request", sa.LargeBinary()),
        sa.Column("lease", sa.LargeBinary()),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("deliveries", sa.Integer(), nullable=False),
        sa.Column("sealed_position", sa.Integer(), nullable=False),
        sa.Column("in_flight", sa.Integer(), nullable=False),
        sa.Column("drain", sa.LargeBinary()),
        sa.Column("reason", sa.String(), nullable=False),
    )
    op.create_index("ix_namespace_state", "namespace", ["state"])
    op.create_table(
        "world_row",
        *_partition(),
        sa.Column("world", sa.String(), primary_key=True),
        sa.Column("collection", sa.LargeBinary(), primary_key=True),
        sa.Column("key", sa.LargeBinary(), primary_key=True),
        sa.Column("body", sa.LargeBinary()),
    )
    op.create_table(
        "delivery",
        *_partition(),
        sa.Column("delivery_id", sa.String(), primary_key=True),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("tool", sa.LargeBinary(), nullable=False),
        sa.Column("arguments", sa.LargeBinary(), nullable=False),
        sa.Column("reply", sa.LargeBinary()),
        sa.Column("wait", sa.LargeBinary()),
    )
    op.create_table(
        "ledger",
        *_partition(),
        sa.Column("position", sa.Integer(), primary_key=True),
        sa.Column("cause_kind", sa.String(), nullable=False),
        sa.Column("cause", sa.String(), nullable=False),
        sa.Column("tool", sa.LargeBinary(), nullable=False),
        sa.Column("operation_id", sa.LargeBinary()),
        sa.Column("world", sa.String(), nullable=False),
        sa.Column("collection", sa.LargeBinary(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("before", sa.LargeBinary()),
        sa.Column("after", sa.LargeBinary()),
        sa.Column("at_s", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "late_write",
        *_partition(),
        sa.Column("delivery_id", sa.String(), primary_key=True),
        sa.Column("request_digest", sa.String(), primary_key=True),
        sa.Column("tool", sa.LargeBinary(), nullable=False),
        sa.Column("current_generation", sa.Integer(), nullable=False),
    )


def downgrade() -> None:
    for table in ("late_write", "ledger", "delivery", "world_row", "namespace"):
        op.drop_table(table)
