import dataclasses
import typing as t


@dataclasses.dataclass
class CmdRunAction:
    command: str
    is_input: bool = False
    blocking: bool = False
    hidden: bool = False
    timeout: t.Optional[float] = None
