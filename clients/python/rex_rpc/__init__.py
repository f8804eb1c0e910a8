"""Sessions, files and processes on this machine and others, through rex-rpc.

`Rex` blocks, `AsyncRex` is for asyncio; both have the same methods. Names of params and results are the protocol's, so
that its reference is also this package's.
"""

from . import wire_gen as wire
from .aio import AsyncHost, AsyncRex, AsyncSession
from .errors import ConnectionLost, RexError
from .errors_gen import *  # noqa: F401,F403
from .feeds import AsyncChanges, AsyncEvents, AsyncFeed, AsyncOutput, Chunk
from .keys import Keys
from .packing import data_of
from .sync import Feed, Host, Rex, Session

__version__ = "0.1.0"
