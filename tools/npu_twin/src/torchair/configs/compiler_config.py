"""Options object of torchair."""


class _Options:
    """Any attribute path can be read and set."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = _Options()
        object.__setattr__(self, name, value)
        return value


class CompilerConfig(_Options):
    pass
