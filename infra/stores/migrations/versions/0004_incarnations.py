"""Namespaces know the incarnation of the sandbox that calls of its programs are taken from."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

COLUMNS = (("namespace", "incarnation"), ("late_write", "incarnation"), ("late_write", "current_incarnation"))


def upgrade() -> None:
    for table, name in COLUMNS:
        op.add_column(table, sa.Column(name, sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    for table, name in reversed(COLUMNS):
        op.drop_column(table, name)
