// Small kernels with one planted fault each, and the same kernel without it.
#pragma once

#include "kernel_operator.h"

namespace cases {

using namespace AscendC;

constexpr uint32_t kWords = 256;  // int32 in each of x, y and w

struct Tensors {
    GlobalTensor<int32_t> x;  // 0, 1, 2, ...; input
    GlobalTensor<int32_t> y;  // zero; output
    GlobalTensor<int32_t> w;  // zero; workspace
};

using Kernel = void (*)(Tensors&);

// Registers a kernel that runs on `blocks` cores as `name`.
struct Case {
    Case(const char* name, int blocks, KernelMetaType type, Kernel fault, Kernel control);

    const char* name;
    int blocks;
    KernelMetaType type;
    Kernel fault;
    Kernel control;
    Case* next;
};

#define CASE(NAME, BLOCKS) static Case case_##NAME(#NAME, BLOCKS, KERNEL_TYPE_AIV_ONLY, NAME<true>, NAME<false>)
#define CASE_WITH_SYNC_ALL(NAME, BLOCKS) \
    static Case case_##NAME(#NAME, BLOCKS, KERNEL_TYPE_MIX_AIV_1_0, NAME<true>, NAME<false>)

template <HardEvent EVENT>
void order() {
    SetFlag<EVENT>(EVENT_ID0);
    WaitFlag<EVENT>(EVENT_ID0);
}

inline bool first_core() { return GetBlockIdx() == 0; }

}  // namespace cases
