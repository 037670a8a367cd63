// Leaves by score: a binary min-heap of (score, node) in UB, the lowest score first, on ties the highest node.
#pragma once

#include "kernel_operator.h"

namespace dsv4::tree_build {

class LeafHeap {
 public:
    __aicore__ inline void Init(const AscendC::LocalTensor<int64_t>& memory) { memory_ = memory; }
    __aicore__ inline void Empty() { size_ = 0; }

    // score_bits: of an fp32. Finite values compare as numbers, NaN and infinities are the lowest.
    __aicore__ inline void Push(int32_t score_bits, uint32_t node) {
        const int64_t entry = static_cast<int64_t>(Rank(score_bits)) * kScoreUnit + (kLast - node);
        uint32_t at = size_++;
        while (at > 0) {
            const uint32_t above = (at - 1) / 2;
            const int64_t other = memory_.GetValue(above);
            if (other <= entry) break;
            memory_.SetValue(at, other);
            at = above;
        }
        memory_.SetValue(at, entry);
    }

    // The heap must not be empty.
    __aicore__ inline uint32_t Pop() {
        const int64_t lowest = memory_.GetValue(0);
        const int64_t moved = memory_.GetValue(--size_);
        uint32_t at = 0;
        while (2 * at + 1 < size_) {
            uint32_t below = 2 * at + 1;
            int64_t other = memory_.GetValue(below);
            if (below + 1 < size_) {
                const int64_t right = memory_.GetValue(below + 1);
                if (right < other) {
                    other = right;
                    ++below;
                }
            }
            if (moved <= other) break;
            memory_.SetValue(at, other);
            at = below;
        }
        if (size_ > 0) memory_.SetValue(at, moved);
        return kLast - static_cast<uint32_t>(lowest & 0xffffffff);
    }

 private:
    static constexpr int64_t kScoreUnit = 1ll << 32;
    static constexpr uint32_t kLast = 0x7fffffff;

    // Integer order of the scores: no float arithmetic, so no question of how the unit treats subnormals and -0.
    __aicore__ static inline int32_t Rank(int32_t bits) {
        const int32_t magnitude = bits & 0x7fffffff;
        if (magnitude >= 0x7f800000) return -0x7fffffff - 1;
        return bits < 0 ? -magnitude : magnitude;
    }

    AscendC::LocalTensor<int64_t> memory_;
    uint32_t size_ = 0;
};

}  // namespace dsv4::tree_build
