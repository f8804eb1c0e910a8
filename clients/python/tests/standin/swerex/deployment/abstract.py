import abc
import logging
import typing as t

from ..runtime.abstract import AbstractRuntime, IsAliveResponse
from .hooks.abstract import DeploymentHook


class AbstractDeployment(abc.ABC):
    logger: logging.Logger

    @abc.abstractmethod
    def add_hook(self, hook: DeploymentHook) -> None: ...

    @abc.abstractmethod
    async def is_alive(self, *, timeout: t.Optional[float] = None) -> IsAliveResponse: ...

    @abc.abstractmethod
    async def start(self) -> None: ...

    @abc.abstractmethod
    async def stop(self) -> None: ...

    @property
    @abc.abstractmethod
    def runtime(self) -> AbstractRuntime: ...
