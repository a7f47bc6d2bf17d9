"""Migrating a database with Alembic, which takes long to import: only an old or new database pays for it."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy import Connection

from tiltyard.errors import EnvironmentFailed


def upgrade(connection: Connection, migrations: Path) -> None:
    """Bring the schema up to date. Raises ``EnvironmentFailed`` for a revision that is not known here."""
    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise EnvironmentFailed(
            f"{connection.engine.url.database} was made by a newer version of Tiltyard ({error}); "
            "update Tiltyard, or choose another data folder"
        ) from error
