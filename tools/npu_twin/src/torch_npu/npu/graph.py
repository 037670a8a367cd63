"""Graph capture is not modelled: every way in raises."""


def _refuse():
    raise RuntimeError("npu twin: graph capture is not available, start the engine with disable_cuda_graph=True")


class NPUGraph:
    def __init__(self, *_, **__):
        _refuse()


class graph:  # noqa: N801 - torch's name
    def __init__(self, *_, **__):
        _refuse()


class NpuGraphOpHandler:
    """Base class that SGLang subclasses at import; never used without capture."""


def register_npu_graph_handler(names):
    """Decorator; keeps the class, registers nothing."""
    return lambda handler: handler


def graph_pool_handle():
    return (0, 0)
