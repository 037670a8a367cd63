"""Counters of the kernels on the host layer: DMA, scalar and vector work per launch, against the least possible."""
