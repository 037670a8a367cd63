// Host memory that poses as device memory, with byte counters.
#pragma once
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <cstdint>

namespace npu_twin {

// The calling thread's current device, and how many devices there are (NPU_TWIN_DEVICES, 1 by default). All of them
// are the same host memory; more than one lets ranks of one box have their own index.
c10::Device current_device();
void set_current_device(c10::DeviceIndex index);
c10::DeviceIndex device_count();

// Allocator behind every tensor created on an npu device; allocates on the current device.
c10::Allocator* npu_allocator();

// Bytes held now, and the most held since the last reset. Unit: bytes.
int64_t allocated_bytes();
int64_t peak_bytes();
void reset_peak_bytes();

}  // namespace npu_twin
