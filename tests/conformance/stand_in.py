"""Started by a client in the place of rex-rpc: gives its standard input and output to the kit, and ends as the kit says.

The one argument is the kit's socket. What comes there is how to end, as a process's returncode; its end without a word
is the end of the kit.
"""

import os
import signal
import socket
import sys

with socket.socket(socket.AF_UNIX) as kit:
    kit.connect(sys.argv[1])
    socket.send_fds(kit, [b" "], [0, 1])
    os.close(0)
    os.close(1)
    how = int(kit.recv(16) or 1)
if how < 0:
    signal.signal(-how, signal.SIG_DFL) if -how != signal.SIGKILL else None
    os.kill(os.getpid(), -how)
os._exit(how)
