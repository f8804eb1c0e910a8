"""Runs a module with these deployments installed: `python -m rex_rpc.swerex sweagent.run.run run …`."""

import runpy
import sys

from . import install

if len(sys.argv) < 2:
    sys.exit("usage: python -m rex_rpc.swerex MODULE [ARGUMENT...], for example: sweagent.run.run run --config my.yaml")
install()
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
