// Device side: the part of a [requests, width] tensor that belongs to the requests a core works on, in UB.
#pragma once

#include "kernel_operator.h"

namespace dsv4 {

// Everything that SOURCE has been given is finished before TARGET starts what comes next.
template <AscendC::HardEvent EVENT>
__aicore__ inline void order() {
    AscendC::SetFlag<EVENT>(EVENT_ID0);
    AscendC::WaitFlag<EVENT>(EVENT_ID0);
}

// Integers of 32 or 64 bits. DMA moves a group of requests at once and touches no byte of another request; the scalar
// unit reads and writes single elements. The caller orders the pipes.
class RequestSlice {
 public:
    // width: elements of a request; group: most requests at a time.
    __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR data, uint32_t requests, uint32_t width, bool wide,
                                uint32_t group) {
        wide_ = wide;
        words_ = width * (wide ? 2 : 1);
        if (words_ == 0) return;
        gm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(data), static_cast<uint64_t>(requests) * words_);
        pipe->InitBuffer(buffer_, group * words_ * sizeof(int32_t));
    }

    __aicore__ inline void Load(uint32_t first, uint32_t count) {
        if (words_ == 0) return;
        const uint32_t bytes = count * words_ * static_cast<uint32_t>(sizeof(int32_t));
        AscendC::DataCopyPad(buffer_.Get<int32_t>(), gm_[static_cast<uint64_t>(first) * words_], {1, bytes, 0, 0, 0},
                             {false, 0, 0, 0});
    }

    __aicore__ inline void Store(uint32_t first, uint32_t count) {
        const uint32_t bytes = count * words_ * static_cast<uint32_t>(sizeof(int32_t));
        AscendC::DataCopyPad(gm_[static_cast<uint64_t>(first) * words_], buffer_.Get<int32_t>(), {1, bytes, 0, 0, 0});
    }

    // Sets every element of `count` requests to -1: all bits, whatever the width.
    __aicore__ inline void Clear(uint32_t count) {
        AscendC::Duplicate(buffer_.Get<int32_t>(), static_cast<int32_t>(-1), static_cast<int32_t>(count * words_));
    }

    __aicore__ inline int64_t Get(uint32_t index) {
        if (wide_) return buffer_.Get<int64_t>().GetValue(index);
        return buffer_.Get<int32_t>().GetValue(index);
    }

    __aicore__ inline void Set(uint32_t index, int64_t value) {
        if (wide_) {
            buffer_.Get<int64_t>().SetValue(index, value);
        } else {
            buffer_.Get<int32_t>().SetValue(index, static_cast<int32_t>(value));
        }
    }

    template <typename T>
    __aicore__ inline AscendC::LocalTensor<T> Tensor() {
        return buffer_.Get<T>();
    }

 private:
    AscendC::GlobalTensor<int32_t> gm_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> buffer_;
    uint32_t words_ = 0;
    bool wide_ = false;
};

// Requests [first, first + count) of a core: contiguous shares that differ by at most one.
struct Share {
    uint32_t first;
    uint32_t count;
};

__aicore__ inline Share share_of_core(uint32_t requests) {
    const auto cores = static_cast<uint32_t>(AscendC::GetBlockNum());
    const auto core = static_cast<uint32_t>(AscendC::GetBlockIdx());
    const uint32_t least = requests / cores, longer = requests % cores;
    return {core * least + (core < longer ? core : longer), least + (core < longer ? 1 : 0)};
}

}  // namespace dsv4
