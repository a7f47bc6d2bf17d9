"""Record tables: episodes, outcomes, journals, turns."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "episode",
        sa.Column("ordinal", sa.Integer(), primary_key=True),
        sa.Column("episode_id", sa.String(), nullable=False, unique=True),
        sa.Column("planned_s", sa.Float(), nullable=False),
        sa.Column("spec", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "outcome",
        sa.Column("episode_id", sa.String(), primary_key=True),
        sa.Column("result", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "journal",
        sa.Column("episode_id", sa.String(), primary_key=True),
        sa.Column("generation", sa.Integer(), primary_key=True),
        sa.Column("token", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "turn",
        sa.Column("episode_id", sa.String(), primary_key=True),
        sa.Column("generation", sa.Integer(), primary_key=True),
        sa.Column("turn", sa.Integer(), primary_key=True),
        sa.Column("decision", sa.LargeBinary(), nullable=False),
        sa.Column("shown", sa.LargeBinary()),
        sa.Column("shown_object", sa.String()),
        sa.Column("faults", sa.LargeBinary(), nullable=False),
        sa.Column("now_s", sa.Integer(), nullable=False),
    )


def downgrade() -> None:
    for table in ("turn", "journal", "outcome", "episode"):
        op.drop_table(table)
