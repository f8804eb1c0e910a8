"""SWE-ReX's runtime and deployments on rex-rpc: the same models and exceptions, so that SWE-agent need not change.

Needs the package swe-rex, whose classes these are. Either use a deployment from here in place of theirs, or call
`install()` once, after which their configuration files give these; `python -m rex_rpc.swerex MODULE …` does that for a
program as it is.
"""

from __future__ import annotations

import importlib

from .deployment import DockerDeployment, HostDeployment, LocalDeployment, RemoteDeployment
from .runtime import RexRuntime

__all__ = ["DockerDeployment", "HostDeployment", "LocalDeployment", "RemoteDeployment", "RexRuntime", "install"]


def install() -> None:
    """Puts these deployments where swerex.deployment.get_deployment finds theirs: local, docker, remote."""
    for deployment in (LocalDeployment, DockerDeployment, RemoteDeployment):
        module = importlib.import_module(f"swerex.deployment.{deployment.kind}")
        setattr(module, deployment.__name__, deployment)
