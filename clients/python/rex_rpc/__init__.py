"""Sessions, files and processes on this machine and others, through rex-rpc.

`Rex` blocks, `AsyncRex` is for asyncio; both have the same methods. Names of params and results are the protocol's, so
that its reference is also this package's.
"""

# `as` says to type checkers that a name is for others.
from . import wire_gen
from .aio import AsyncHost as AsyncHost, AsyncRex as AsyncRex, AsyncSession as AsyncSession
from .errors import ConnectionLost as ConnectionLost, RexError as RexError
from .errors_gen import *  # noqa: F401,F403
from .feeds import AsyncChanges as AsyncChanges, AsyncEvents as AsyncEvents, AsyncFeed as AsyncFeed, AsyncOutput as AsyncOutput
from .feeds import Chunk as Chunk
from .keys import Keys as Keys
from .packing import data_of as data_of
from .sync import Feed as Feed, Host as Host, Rex as Rex, Session as Session

wire = wire_gen

__version__ = "0.1.0"
