"""Makes wheels that carry the program: REX_RPC_BINARY names it, best the one static file of `./dev build static`.

Without it the wheel has Python alone, for machines that have a rex-rpc. All else is in pyproject.toml.
"""

import os
import pathlib
import platform
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py

BINARY = os.environ.get("REX_RPC_BINARY", "")

try:
    from wheel.bdist_wheel import bdist_wheel
except ImportError:  # setuptools 70 has it itself
    from setuptools.command.bdist_wheel import bdist_wheel


class WithProgram(build_py):
    def run(self):
        super().run()
        if BINARY:
            target = pathlib.Path(self.build_lib, "rex_rpc", "bin", "rex-rpc")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(BINARY, target)
            target.chmod(0o755)


class ForMachine(bdist_wheel):
    """Any Python, one kind of machine; the program needs nothing of it but Linux."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = not BINARY

    def get_tag(self):
        return ("py3", "none", f"linux_{platform.machine()}") if BINARY else super().get_tag()


setup(cmdclass={"build_py": WithProgram, "bdist_wheel": ForMachine})
