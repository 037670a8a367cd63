// The optional attention mask of tree_build, in SGLang's three layouts.
#pragma once

#include "kernel_operator.h"
#include "request_slice.h"
#include "tree_build_layout.h"

namespace dsv4::tree_build {

class TreeMask {
 public:
    __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR mask, uint64_t bytes, int32_t mode, uint32_t n,
                                uint32_t group) {
        mode_ = mode;
        n_ = n;
        bytes_ = bytes;
        if (mode == NO_MASK) return;
        gm_.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(mask), bytes);
        pipe->InitBuffer(rows_, group * n * (mode == QLEN_ONLY_BITPACKING ? packed_bytes(n) : mask_pitch(n)));
    }

    // FULL_MASK: the first mask of this core, which starts with request `first`, lies behind those of the requests
    // before.
    __aicore__ inline void Locate(AscendC::TPipe* pipe, GM_ADDR seq_lens, bool wide, uint32_t first) {
        if (first == 0) return;
        prefixes_.Init(pipe, seq_lens, first, 1, wide, first);
        prefixes_.Load(0, first);
        order<AscendC::HardEvent::MTE2_S>();
        for (uint32_t b = 0; b < first && offset_ != kNowhere; ++b) Pass(prefixes_.Get(b));
    }

    // Row `row` of the group: bit j of `visible` is node j.
    __aicore__ inline void SetRow(uint32_t row, uint64_t visible) {
        if (mode_ == QLEN_ONLY_BITPACKING) {
            if (n_ <= 8) {
                rows_.Get<uint8_t>().SetValue(row, static_cast<uint8_t>(visible));
            } else if (n_ <= 16) {
                rows_.Get<uint16_t>().SetValue(row, static_cast<uint16_t>(visible));
            } else {
                rows_.Get<uint32_t>().SetValue(row, static_cast<uint32_t>(visible));
            }
        } else if (mode_ != NO_MASK) {
            AscendC::LocalTensor<int64_t> octets = rows_.Get<int64_t>();
            const uint32_t first = row * (mask_pitch(n_) / 8);
            for (uint32_t i = 0; i * 8 < n_; ++i) {
                octets.SetValue(first + i, static_cast<int64_t>(BitsAsBytes(visible >> (8 * i) & 0xff)));
            }
        }
    }

    // Writes the mask of the group. `seq_lens`: prefix lengths of its requests.
    __aicore__ inline void Store(uint32_t first, uint32_t count, RequestSlice& seq_lens) {
        if (mode_ == NO_MASK) return;
        AscendC::LocalTensor<uint8_t> rows = rows_.Get<uint8_t>();
        if (mode_ == QLEN_ONLY_BITPACKING) {
            const uint32_t bytes = n_ * packed_bytes(n_);
            AscendC::DataCopyPad(gm_[static_cast<uint64_t>(first) * bytes], rows, {1, count * bytes, 0, 0, 0});
        } else if (mode_ == QLEN_ONLY) {
            AscendC::DataCopyPad(gm_[static_cast<uint64_t>(first) * n_ * n_], rows,
                                 {static_cast<uint16_t>(count * n_), n_, 0, 0, 0});
        } else {
            for (uint32_t r = 0; r < count; ++r) StoreFull(rows[r * n_ * mask_pitch(n_)], seq_lens.Get(r));
        }
    }

 private:
    static constexpr int64_t kNowhere = -1;

    // Moves on by one request. A prefix that does not fit the tensor ends the masks of this core: their place is
    // unknown.
    __aicore__ inline void Pass(int64_t prefix) {
        const int64_t room = (static_cast<int64_t>(bytes_) - offset_) / n_ - n_;
        const bool fits = prefix >= 0 && prefix <= room && prefix <= 0xffffffff;
        offset_ = fits ? offset_ + (prefix + n_) * n_ : kNowhere;
    }

    // n rows of prefix + n columns. The columns of the prefix stay as the caller filled them.
    __aicore__ inline void StoreFull(const AscendC::LocalTensor<uint8_t>& rows, int64_t prefix) {
        if (offset_ == kNowhere) return;
        const int64_t first = offset_;
        Pass(prefix);
        if (offset_ == kNowhere) return;
        AscendC::DataCopyPad(gm_[first + prefix], rows,
                             {static_cast<uint16_t>(n_), n_, 0, static_cast<uint32_t>(prefix), 0});
    }

    // Byte k of the result is bit k of `bits`, as 0 or 1.
    __aicore__ static inline uint64_t BitsAsBytes(uint64_t bits) {
        const uint64_t spread = (bits * 0x0101010101010101ull) & 0x8040201008040201ull;
        return ((spread + 0x7f7f7f7f7f7f7f7full) >> 7) & 0x0101010101010101ull;
    }

    AscendC::GlobalTensor<uint8_t> gm_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> rows_;
    RequestSlice prefixes_;  // of the requests before this core's
    int32_t mode_ = NO_MASK;
    uint32_t n_ = 0;
    uint64_t bytes_ = 0;
    int64_t offset_ = 0;
};

}  // namespace dsv4::tree_build
