"""Fields of the configurations; each says where its deployment class is looked up."""

import dataclasses
import importlib
import typing as t

from .abstract import AbstractDeployment


class Config:
    def model_dump(self) -> t.Dict[str, t.Any]:
        return dict(vars(self))

    def get_deployment(self) -> AbstractDeployment:
        name = type(self).__name__.removesuffix("Config")
        module = importlib.import_module(f"swerex.deployment.{name.removesuffix('Deployment').lower()}")
        return t.cast(AbstractDeployment, getattr(module, name).from_config(self))


@dataclasses.dataclass
class LocalDeploymentConfig(Config):
    type: t.Literal["local"] = "local"


@dataclasses.dataclass
class DockerDeploymentConfig(Config):
    image: str = "python:3.11"
    port: t.Optional[int] = None
    docker_args: t.List[str] = dataclasses.field(default_factory=list)
    startup_timeout: float = 180.0
    pull: t.Literal["never", "always", "missing"] = "missing"
    remove_images: bool = False
    platform: t.Optional[str] = None
    remove_container: bool = True
    container_runtime: t.Literal["docker", "podman"] = "docker"
    type: t.Literal["docker"] = "docker"


@dataclasses.dataclass
class RemoteDeploymentConfig(Config):
    auth_token: str
    host: str = "http://127.0.0.1"
    port: t.Optional[int] = None
    timeout: float = 0.15
    type: t.Literal["remote"] = "remote"
