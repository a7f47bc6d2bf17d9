"""Task suites as data: one YAML file a family, read, rendered and checked here (docs/tasks.md)."""

from tiltyard.suite.check import check_in, check_suite, check_task
from tiltyard.suite.families import Family, Suite, load_suite, shipped

__all__ = ["Family", "Suite", "check_in", "check_suite", "check_task", "load_suite", "shipped"]
