"""Hosts of sandboxes say that they are there."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "host",
        sa.Column("task_queue", sa.String(), primary_key=True),
        sa.Column("host", sa.String(), primary_key=True),
        sa.Column("beat_s", sa.Float(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("free", sa.Integer(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("host")
