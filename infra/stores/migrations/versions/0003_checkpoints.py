"""Turns name the checkpoint of the sandbox's files that was made after them."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("turn", sa.Column("checkpoint", sa.String()))


def downgrade() -> None:
    op.drop_column("turn", "checkpoint")
