"""Host/device page transfer of sgl-kernel-npu: the enum is real, the transfers are not modelled."""

import enum

from sgl_kernel_npu import absent


class TransferDirection(enum.IntEnum):
    H2D = 1
    D2H = 2


def __getattr__(name):
    return absent(__name__, name)
