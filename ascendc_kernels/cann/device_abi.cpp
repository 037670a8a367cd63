// The part of the C ABI that host builds implement in their runtime: nothing is counted or configured here.
#include <cstring>

#include "abi.h"

extern "C" int dsv4_counters_last(dsv4_counters* out) {
    std::memset(out, 0, sizeof(*out));
    return DSV4_OK;
}

extern "C" int dsv4_host_configure(const char*, int32_t, uint64_t) { return DSV4_BAD_ARGUMENT; }

extern "C" const char* dsv4_build(void) {
#if defined(DSV4_NPU)
    return "npu";
#else
    return "cann-cpu";
#endif
}
