"""What a runtime is asked, and answers; theirs are pydantic models with these fields and defaults."""

import abc
import dataclasses
import logging
import typing as t


@dataclasses.dataclass
class IsAliveResponse:
    is_alive: bool
    message: str = ""

    def __bool__(self) -> bool:
        return self.is_alive


@dataclasses.dataclass
class CreateBashSessionRequest:
    startup_source: t.List[str] = dataclasses.field(default_factory=list)
    session: str = "default"
    startup_timeout: float = 1.0


@dataclasses.dataclass
class CreateBashSessionResponse:
    output: str = ""


@dataclasses.dataclass
class BashAction:
    command: str
    session: str = "default"
    timeout: t.Optional[float] = None
    is_interactive_command: bool = False
    is_interactive_quit: bool = False
    check: t.Literal["silent", "raise", "ignore"] = "raise"
    error_msg: str = ""
    expect: t.List[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class BashInterruptAction:
    session: str = "default"
    timeout: float = 0.2
    n_retry: int = 3
    expect: t.List[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class BashObservation:
    output: str = ""
    exit_code: t.Optional[int] = None
    failure_reason: str = ""
    expect_string: str = ""


@dataclasses.dataclass
class CloseBashSessionRequest:
    session: str = "default"


@dataclasses.dataclass
class CloseBashSessionResponse:
    pass


@dataclasses.dataclass
class Command:
    command: t.Union[str, t.List[str]]
    timeout: t.Optional[float] = None
    shell: bool = False
    check: bool = False
    error_msg: str = ""
    env: t.Optional[t.Dict[str, str]] = None
    cwd: t.Optional[str] = None
    merge_output_streams: bool = False


@dataclasses.dataclass
class CommandResponse:
    stdout: str = ""
    stderr: str = ""
    exit_code: t.Optional[int] = None


@dataclasses.dataclass
class ReadFileRequest:
    path: str
    encoding: t.Optional[str] = None
    errors: t.Optional[str] = None


@dataclasses.dataclass
class ReadFileResponse:
    content: str = ""


@dataclasses.dataclass
class WriteFileRequest:
    content: str
    path: str


@dataclasses.dataclass
class WriteFileResponse:
    pass


@dataclasses.dataclass
class UploadRequest:
    source_path: str
    target_path: str


@dataclasses.dataclass
class UploadResponse:
    pass


@dataclasses.dataclass
class CloseResponse:
    pass


class AbstractRuntime(abc.ABC):
    logger: logging.Logger

    @abc.abstractmethod
    async def is_alive(self, *, timeout: t.Optional[float] = None) -> IsAliveResponse: ...

    @abc.abstractmethod
    async def create_session(self, request: CreateBashSessionRequest) -> CreateBashSessionResponse: ...

    @abc.abstractmethod
    async def run_in_session(self, action: t.Union[BashAction, BashInterruptAction]) -> BashObservation: ...

    @abc.abstractmethod
    async def close_session(self, request: CloseBashSessionRequest) -> CloseBashSessionResponse: ...

    @abc.abstractmethod
    async def execute(self, command: Command) -> CommandResponse: ...

    @abc.abstractmethod
    async def read_file(self, request: ReadFileRequest) -> ReadFileResponse: ...

    @abc.abstractmethod
    async def write_file(self, request: WriteFileRequest) -> WriteFileResponse: ...

    @abc.abstractmethod
    async def upload(self, request: UploadRequest) -> UploadResponse: ...

    @abc.abstractmethod
    async def close(self) -> CloseResponse: ...
