"""Cache bookkeeping kernels of sgl-kernel-npu."""
