import dataclasses
import typing as t


@dataclasses.dataclass
class CmdOutputMetadata:
    exit_code: int = -1
    pid: int = -1
    username: t.Optional[str] = None
    hostname: t.Optional[str] = None
    working_dir: t.Optional[str] = None
    py_interpreter_path: t.Optional[str] = None
    prefix: str = ""
    suffix: str = ""


@dataclasses.dataclass
class CmdOutputObservation:
    """Theirs also cuts the content to 30,000 characters."""

    content: str
    command: str
    metadata: CmdOutputMetadata = dataclasses.field(default_factory=CmdOutputMetadata)
    hidden: bool = False
