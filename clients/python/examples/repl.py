"""Drives a REPL with no pattern of its prompt: the kernel says when a program has read its input and waits for more."""

from rex_rpc import Rex

with Rex() as rex, rex.session() as session:
    session.run("python3 -q")
    for line in ("2**64", "[n * n for n in range(5)]", "1 / 0"):
        answer = session.run(line, interactive=True)
        print(f"{line}  ->  {answer['output'].removesuffix('>>> ')}", end="")
    print(session.run("exit()", interactive=True)["state"])
