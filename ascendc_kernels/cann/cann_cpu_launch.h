// launch.h for CANN's CPU debug library: one process per block over shared memory, so tensors are copied in and out.
#pragma once

#include <cstdlib>
#include <cstring>
#include <vector>

#include "abi.h"
#include "tikicpulib.h"

namespace dsv4 {

inline uint32_t aiv_cores() {
    const char* value = std::getenv("DSV4_HOST_CORES");
    const int cores = value != nullptr ? std::atoi(value) : 0;
    return cores >= 1 && cores <= 48 ? static_cast<uint32_t>(cores) : 8;
}

class Launch {
 public:
    Launch(const char*, uint32_t blocks, void*) : blocks_(blocks) {}
    ~Launch() {
        for (Mapping& m : mappings_) AscendC::GmFree(m.shared);
    }
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

    // Addresses that the kernel may use; a tensor given twice is mapped once.
    GmAddress input(const void* data, uint64_t bytes, const char*) {
        return map(static_cast<uint8_t*>(const_cast<void*>(data)), bytes, false);
    }
    GmAddress output(void* data, uint64_t bytes, const char*) { return map(static_cast<uint8_t*>(data), bytes, true); }
    GmAddress inout(void* data, uint64_t bytes, const char* name) { return output(data, bytes, name); }

    uint32_t blocks() const { return blocks_; }
    int finish() {
        for (Mapping& m : mappings_) {
            if (m.writable) std::memcpy(m.caller, m.shared, m.bytes);
        }
        return DSV4_OK;
    }

 private:
    struct Mapping {
        uint8_t* caller;
        uint64_t bytes;
        uint8_t* shared;
        bool writable;
    };

    GmAddress map(uint8_t* data, uint64_t bytes, bool writable) {
        for (Mapping& m : mappings_) {
            if (data < m.caller || data + bytes > m.caller + m.bytes) continue;
            m.writable |= writable;
            return m.shared + (data - m.caller);
        }
        auto* shared = static_cast<uint8_t*>(AscendC::GmAlloc(bytes));
        std::memcpy(shared, data, bytes);
        mappings_.push_back({data, bytes, shared, writable});
        return shared;
    }

    uint32_t blocks_;
    std::vector<Mapping> mappings_;
};

}  // namespace dsv4

#define DSV4_LAUNCH(launch, kernel, error, size, ...)        \
    ([&] {                                                   \
        (void)(error), (void)(size);                         \
        AscendC::SetKernelMode(KernelMode::AIV_MODE);        \
        ICPU_RUN_KF(kernel, (launch).blocks(), __VA_ARGS__); \
        return (launch).finish();                            \
    }())
