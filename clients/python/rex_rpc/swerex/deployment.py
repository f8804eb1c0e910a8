"""SWE-ReX's deployments on rex-rpc, by their names and with their configuration.

A deployment is a host: here, or whatever host/connect reaches. Nothing is installed there and no port is opened.
"""

from __future__ import annotations

import asyncio
import logging
import typing as t

from swerex.deployment.abstract import AbstractDeployment
from swerex.deployment.config import DockerDeploymentConfig, LocalDeploymentConfig, RemoteDeploymentConfig
from swerex.deployment.hooks.abstract import CombinedDeploymentHook, DeploymentHook
from swerex.exceptions import DeploymentNotStartedError, DeploymentStartupError, DockerPullError
from swerex.runtime.abstract import IsAliveResponse

from ..aio import AsyncRex, Prompt
from ..errors import RexError
from ..wire_gen import HostOptions
from .runtime import RexRuntime

NAME = "host"  # of the one host that a deployment's client knows
D = t.TypeVar("D", bound="RexDeployment")


class RexDeployment(AbstractDeployment):
    """What all have: a runtime between `start` and `stop`."""

    kind: t.ClassVar[str] = ""  # the module of SWE-ReX that has one of this name

    def __init__(self, logger: t.Optional[logging.Logger]) -> None:
        self.logger = logger or logging.getLogger("rex_rpc.swerex")
        self._runtime: t.Optional[RexRuntime] = None
        self._hooks = CombinedDeploymentHook()

    def add_hook(self, hook: DeploymentHook) -> None:
        self._hooks.add_hook(hook)

    async def is_alive(self, *, timeout: t.Optional[float] = None) -> IsAliveResponse:
        """DeploymentNotStartedError, unless it is started."""
        return await self.runtime.is_alive(timeout=timeout)

    def _new_runtime(self) -> RexRuntime:
        return RexRuntime(logger=self.logger)

    async def start(self) -> None:
        """DeploymentStartupError says which part of the way failed, and how."""
        self._hooks.on_custom_step("Starting runtime")
        runtime = self._new_runtime()
        try:
            await runtime.open()
        except RexError as error:
            raise startup_error(error) from error
        self._runtime = runtime

    async def stop(self) -> None:
        runtime, self._runtime = self._runtime, None
        if runtime:
            await runtime.close()

    @property
    def runtime(self) -> RexRuntime:
        if self._runtime is None:
            raise DeploymentNotStartedError()
        return self._runtime


class LocalDeployment(RexDeployment):
    """This machine."""

    kind = "local"

    def __init__(self, *, logger: t.Optional[logging.Logger] = None, **kwargs: t.Any) -> None:
        super().__init__(logger)
        self._config = LocalDeploymentConfig(**kwargs)

    @classmethod
    def from_config(cls: t.Type[D], config: LocalDeploymentConfig) -> D:
        return cls(**config.model_dump())

    async def is_alive(self, *, timeout: t.Optional[float] = None) -> IsAliveResponse:
        if self._runtime is None:
            return IsAliveResponse(is_alive=False, message="Runtime is None.")
        return await self._runtime.is_alive(timeout=timeout)


class HostDeployment(RexDeployment):
    """Any host that host/connect reaches: `url` (ssh://me@gpu), `argv` (kubectl exec -i pod -- sh) or `deployment`."""

    def __init__(
        self,
        *,
        url: t.Optional[str] = None,
        argv: t.Optional[t.Sequence[str]] = None,
        deployment: t.Optional[str] = None,
        options: t.Optional[HostOptions] = None,
        install: bool = True,
        startup_timeout: float = 180.0,
        prompt: t.Optional[Prompt] = None,
        env: t.Optional[t.Mapping[str, str]] = None,
        logger: t.Optional[logging.Logger] = None,
    ) -> None:
        """`prompt` answers what the host asks (a password, an unknown key); `env` is that of our own rex-rpc."""
        super().__init__(logger)
        self._target: t.Dict[str, t.Any] = {
            "url": url, "argv": argv, "deployment": deployment, "options": options, "install": install,
        }  # fmt: skip
        self._startup_timeout, self._prompt, self._env = startup_timeout, prompt, env

    def _new_runtime(self) -> RexRuntime:
        return RexRuntime(make=self._client, host=NAME, prepare=self._reach, logger=self.logger)

    def _client(self) -> AsyncRex:
        return AsyncRex(prompt=self._prompt, env=self._env)

    async def _reach(self, rex: AsyncRex) -> None:
        dial = rex.host_connect(NAME, **self._target)
        try:
            await asyncio.wait_for(dial, self._startup_timeout)
        except asyncio.TimeoutError as error:
            raise DeploymentStartupError(f"not reached within {self._startup_timeout} s") from error


class DockerDeployment(HostDeployment):
    """A container of docker or podman, which ends with `stop`. Its image needs no more than a shell; of the configuration
    what is about ports, Python and a server in the container has no use here.
    """

    kind = "docker"

    def __init__(self, *, logger: t.Optional[logging.Logger] = None, **kwargs: t.Any) -> None:
        config = DockerDeploymentConfig(**kwargs)
        options: HostOptions = {"image": config.image, "args": config.docker_args, "keep": not config.remove_container}
        if config.pull != "missing":
            options["pull"] = config.pull
        if config.platform:
            options["platform"] = config.platform
        super().__init__(
            deployment=config.container_runtime, options=options, startup_timeout=config.startup_timeout, logger=logger
        )
        self._config = config

    @classmethod
    def from_config(cls: t.Type[D], config: DockerDeploymentConfig) -> D:
        return cls(**config.model_dump())

    async def stop(self) -> None:
        await super().stop()
        if self._config.remove_images:
            remove = [self._config.container_runtime, "rmi", self._config.image]
            process = await asyncio.create_subprocess_exec(*remove, stdout=-3, stderr=-3)
            if await process.wait():
                self.logger.error("could not remove the image %s", self._config.image)


class RemoteDeployment(RexDeployment):
    """A rex-rpc that listens on TCP (`rex-rpc serve --listen tcp:127.0.0.1:PORT --token-file F`); `auth_token` is the text
    of that file. On another machine: HostDeployment with an ssh:// URL.
    """

    kind = "remote"

    def __init__(self, *, logger: t.Optional[logging.Logger] = None, **kwargs: t.Any) -> None:
        super().__init__(logger)
        self._config = RemoteDeploymentConfig(**kwargs)

    @classmethod
    def from_config(cls: t.Type[D], config: RemoteDeploymentConfig) -> D:
        return cls(**config.model_dump())

    def _new_runtime(self) -> RexRuntime:
        host = self._config.host.split("://")[-1].rstrip("/")
        address = f"tcp:{host}:{self._config.port}" if self._config.port else f"tcp:{host}"
        return RexRuntime(make=lambda: AsyncRex(connect=address, token=self._config.auth_token), logger=self.logger)


def startup_error(error: RexError) -> DeploymentStartupError:
    """What a deployment prepares is its image."""
    return (DockerPullError if error.data.get("phase") == "prepare" else DeploymentStartupError)(str(error))
