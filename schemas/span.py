"""Spans of time: how long anything in a task, a world or a call may be."""

from typing import Annotated

from pydantic import Field

LONGEST_S = 366 * 86_400
"""The longest span that a task, a tool or a call may name, in seconds, virtual or real: a leap year."""

CLOCK_END_S = 2**53 - 1
"""Where a world's clock ends: the last second that every JSON reader, database and protocol takes for what it is.

No task gets there: its calls, each with a wait, a planned delay and a cost of ``LONGEST_S``, come to a hundredth.
"""

VirtualS = Annotated[int, Field(ge=0, le=LONGEST_S)]
RealS = Annotated[float, Field(gt=0, le=LONGEST_S)]
