// The core that the calling code runs on, in both host builds.
#pragma once

#include <cstdint>

#include "host_layer/types.h"
#include "host_layer/where.h"

#ifndef DSV4_HOST_CHECK
#define DSV4_HOST_CHECK 0
#endif

namespace AscendC {
class TPipe;
}

namespace dsv4::host {

constexpr bool kCheck = DSV4_HOST_CHECK != 0;

constexpr uint32_t kBlock = 32;                               // bytes of a UB block
constexpr uint32_t kRepeat = 256;                             // bytes of a vector repeat
constexpr uint32_t kCacheLine = 64;                           // bytes of a data-cache line
constexpr uint32_t kUbPhysical = 192 * 1024;                  // bytes on 2201
constexpr uint32_t kUbUsable = kUbPhysical - 256 - 8 * 1024;  // default build options reserve the rest
constexpr uint32_t kMaxCores = 48;
constexpr uint32_t kMaxBuffers = 64;  // per TPipe
constexpr uint32_t kEventIds = 8;     // per HardEvent; also the number of live buffers per TPosition

class Monitor;

struct Core {
    uint32_t index = 0;
    uint32_t count = 1;
    uint8_t* ub = nullptr;
    AscendC::TPipe* pipe = nullptr;
    KernelMetaType type = KERNEL_TYPE_NONE;
    Monitor* monitor = nullptr;  // null in the fast build
};

// The current core of this thread; cores are fibers of the launching thread.
extern thread_local Core* current_core;
inline Core& core() { return *current_core; }

// Gives the other cores a turn until all have arrived; returns at once on a single core.
void meet_all_cores();

// Ends the launch with a message, in the fast build too: for what would corrupt memory.
[[noreturn]] void refuse(const char* kind, Where where, const char* format, ...) __attribute__((format(printf, 3, 4)));

inline void declare_kernel_type(KernelMetaType type) { core().type = type; }

constexpr uint32_t round_up(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace dsv4::host

#define KERNEL_TASK_TYPE_DEFAULT(type) ::dsv4::host::declare_kernel_type(type)
