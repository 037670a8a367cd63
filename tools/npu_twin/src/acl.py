"""The one call SGLang makes to Ascend's ``acl`` package outside of features that are not modelled."""


class rt:  # noqa: N801 - acl's name
    @staticmethod
    def get_device_info(device: int, attribute: int) -> tuple[int, int]:
        """(value, error). 2201 is the architecture number of Atlas A2/A3, which is what SGLang asks for."""
        return 2201, 0
