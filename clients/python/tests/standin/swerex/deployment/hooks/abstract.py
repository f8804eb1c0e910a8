import typing as t


class DeploymentHook:
    def on_custom_step(self, message: str) -> None: ...


class CombinedDeploymentHook(DeploymentHook):
    def __init__(self) -> None:
        self._hooks: t.List[DeploymentHook] = []

    def add_hook(self, hook: DeploymentHook) -> None:
        self._hooks.append(hook)

    def on_custom_step(self, message: str) -> None:
        for hook in self._hooks:
            hook.on_custom_step(message)
