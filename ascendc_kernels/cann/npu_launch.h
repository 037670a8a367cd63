// launch.h for a card: ACLRT_LAUNCH_KERNEL on the caller's stream.
#pragma once

#include "abi.h"
#include "tiling/platform/platform_ascendc.h"

namespace dsv4 {

// Vector cores of the device that the calling thread uses.
inline uint32_t aiv_cores() {
    static const uint32_t cores = platform_ascendc::PlatformAscendCManager::GetInstance()->GetCoreNumAiv();
    return cores;
}

class Launch {
 public:
    Launch(const char* kernel, uint32_t blocks, void* stream) : kernel_(kernel), blocks_(blocks), stream_(stream) {}

    GmAddress input(const void* data, uint64_t, const char*) { return static_cast<GmAddress>(const_cast<void*>(data)); }
    GmAddress output(void* data, uint64_t, const char*) { return static_cast<GmAddress>(data); }
    GmAddress inout(void* data, uint64_t, const char*) { return static_cast<GmAddress>(data); }

    uint32_t blocks() const { return blocks_; }
    void* stream() const { return stream_; }
    int finish(uint32_t code, char* error, size_t size) const {
        if (code == 0) return DSV4_OK;
        return fail(DSV4_LAUNCH_FAILED, error, size, "%s: launch on %u cores failed with code %u", kernel_, blocks_,
                    code);
    }

 private:
    const char* kernel_;
    uint32_t blocks_;
    void* stream_;
};

}  // namespace dsv4

#define DSV4_LAUNCH(launch, kernel, error, size, ...) \
    (launch).finish(ACLRT_LAUNCH_KERNEL(kernel)((launch).blocks(), (launch).stream(), __VA_ARGS__), error, size)
