"""A job that outlives its client: the first one begins it and is gone, the second comes back and has missed nothing.

A daemon session has a process of its own; the client, its rex-rpc and the terminal of both may end.
"""

from rex_rpc import Rex

NAME = "outlive-example"

with Rex() as rex:
    session = rex.session(NAME, lifetime="daemon").open()  # a `with` would end it
    begun = session.run("for step in 1 2 3; do echo step $step; sleep 0.3; done; (exit 7)", waitMs=0)
    print(f"the first client leaves job {begun['job']} {begun['state']}")

with Rex() as rex:  # any client of the same user, also days later or through a host
    session = rex.use_session(NAME)
    result = session.wait([{"exit": True}])["result"]
    print(f"{result['output']}it ended with {result['exitCode']}")
    session.close()
