"""A journal names what a fork has of its parent."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("journal", sa.Column("inherited", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("journal", "inherited")
