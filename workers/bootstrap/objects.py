"""Where content lives: the folder or the bucket that the settings name."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta

from infra.stores.objects import FolderObjects, ObjectStore
from workers.settings import Settings

PATIENCE = timedelta(seconds=5)
"""How long a service that is away is asked again by itself. An outage that lasts is for the caller to wait out."""


@contextmanager
def open_objects(settings: Settings, patience: timedelta = PATIENCE) -> Iterator[ObjectStore]:
    """The object store of the settings, closed at the end. A service that is away is noticed by the first use.

    Raises ``BadInput`` for an endpoint that no service can have.
    """
    if settings.objects is None:
        yield FolderObjects(settings.objects_folder)
        return
    from infra.stores.s3_objects import S3Objects  # slow to import, and most data folders need none

    with closing(S3Objects(settings.objects, patience=patience)) as objects:
        yield objects
