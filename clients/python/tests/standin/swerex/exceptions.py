"""Names and bases of SWE-ReX's exceptions."""

import typing as t


class SwerexException(Exception):
    pass


class NonZeroExitCodeError(SwerexException, RuntimeError):
    pass


class BashIncorrectSyntaxError(SwerexException, RuntimeError):
    def __init__(self, message: str, *, extra_info: t.Optional[t.Dict[str, t.Any]] = None) -> None:
        super().__init__(message)
        self.extra_info = extra_info or {}


class CommandTimeoutError(SwerexException, RuntimeError, TimeoutError):
    pass


class NoExitCodeError(SwerexException, RuntimeError):
    pass


class SessionExistsError(SwerexException, ValueError):
    pass


class SessionDoesNotExistError(SwerexException, ValueError):
    pass


class DeploymentNotStartedError(SwerexException, RuntimeError):
    def __init__(self, message: str = "Deployment not started") -> None:
        super().__init__(message)


class DeploymentStartupError(SwerexException, RuntimeError):
    pass


class DockerPullError(DeploymentStartupError):
    pass
