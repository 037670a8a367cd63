// DMA between GM and UB: MTE2 inwards, MTE3 outwards.
#pragma once

#include "host_layer/tensor.h"

namespace dsv4::host {

constexpr uint32_t kMaxPadBlock = 2097151;  // bytes of one DataCopyPad block
constexpr uint32_t kMaxBlocks = 4095;       // blocks of one instruction

// One strided transfer, lengths and strides (start to start) in bytes.
struct Transfer {
    uint32_t blocks = 0;
    uint32_t bytes = 0;
    uint64_t gm_step = 0;
    uint64_t ub_step = 0;
};

template <typename T>
constexpr bool copyable =
    one_of<T, int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t>;

// left, right: bytes of padding around a block in UB; fill: one padding element of `unit` bytes.
void copy_in(Instruction& dma, const UbView& ub, const GmView& gm, const Transfer& transfer, uint32_t left = 0,
             uint32_t right = 0, const void* fill = nullptr, uint32_t unit = 1);
void copy_out(Instruction& dma, const GmView& gm, const UbView& ub, const Transfer& transfer);

// GM addresses are whole elements.
template <typename T>
void gm_aligned(Instruction& dma, const GmView& gm) {
    dma.require(reinterpret_cast<uintptr_t>(gm.data) % sizeof(T) == 0, "GM address not aligned", "element of %zu bytes",
                sizeof(T));
}

inline Transfer contiguous(Instruction& dma, uint64_t bytes) {
    dma.require(bytes % kBlock == 0, "count not a multiple of 32 B", "%llu bytes would be rounded down",
                static_cast<unsigned long long>(bytes));
    return {1, static_cast<uint32_t>(bytes / kBlock * kBlock), 0, 0};
}

inline Transfer blocks_of(Instruction& dma, const AscendC::DataCopyParams& p, uint32_t gm_gap, uint32_t ub_gap) {
    dma.require(p.blockCount <= kMaxBlocks, "limit", "blockCount %u, at most 4095", p.blockCount);
    const uint32_t bytes = p.blockLen * kBlock;
    return {p.blockCount, bytes, uint64_t{bytes} + uint64_t{gm_gap} * kBlock,
            uint64_t{bytes} + uint64_t{ub_gap} * kBlock};
}

inline void pad_limits(Instruction& dma, const AscendC::DataCopyExtParams& p, uint32_t element) {
    dma.require(p.blockCount <= kMaxBlocks, "limit", "blockCount %u, at most 4095", p.blockCount);
    dma.require(p.blockLen <= kMaxPadBlock, "limit", "blockLen %u bytes, at most 2097151", p.blockLen);
    dma.require(p.blockLen % element == 0, "limit", "blockLen %u bytes is not whole elements of %u", p.blockLen,
                element);
}

}  // namespace dsv4::host

namespace AscendC {

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t count,
              dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(dsv4::host::copyable<T>, "DataCopy: element type");
    dsv4::host::Instruction dma(PIPE_MTE2, dsv4::host::Role::DMA_IN, "DataCopy", where);
    dsv4::host::gm_aligned<T>(dma, src.view());
    copy_in(dma, dst.view(), src.view(), contiguous(dma, uint64_t{count} * sizeof(T)));
}

template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count,
              dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(dsv4::host::copyable<T>, "DataCopy: element type");
    dsv4::host::Instruction dma(PIPE_MTE3, dsv4::host::Role::DMA_OUT, "DataCopy", where);
    dsv4::host::gm_aligned<T>(dma, dst.view());
    copy_out(dma, dst.view(), src.view(), contiguous(dma, uint64_t{count} * sizeof(T)));
}

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& params,
              dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(dsv4::host::copyable<T>, "DataCopy: element type");
    dsv4::host::Instruction dma(PIPE_MTE2, dsv4::host::Role::DMA_IN, "DataCopy", where);
    dsv4::host::gm_aligned<T>(dma, src.view());
    copy_in(dma, dst.view(), src.view(), blocks_of(dma, params, params.srcGap, params.dstGap));
}

template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& params,
              dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(dsv4::host::copyable<T>, "DataCopy: element type");
    dsv4::host::Instruction dma(PIPE_MTE3, dsv4::host::Role::DMA_OUT, "DataCopy", where);
    dsv4::host::gm_aligned<T>(dma, dst.view());
    copy_out(dma, dst.view(), src.view(), blocks_of(dma, params, params.dstGap, params.srcGap));
}

// Each block is padded to 32 B in UB. Bytes past block and padding are not defined.
template <typename T>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& params,
                 const DataCopyPadExtParams<T>& pad, dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(dsv4::host::copyable<T>, "DataCopyPad: element type");
    using dsv4::host::kBlock;
    dsv4::host::Instruction dma(PIPE_MTE2, dsv4::host::Role::DMA_IN, "DataCopyPad", where);
    pad_limits(dma, params, sizeof(T));
    const uint32_t left = pad.isPad ? pad.leftPadding * sizeof(T) : 0;
    const uint32_t right = pad.isPad ? pad.rightPadding * sizeof(T) : 0;
    dma.require(left <= kBlock && right <= kBlock, "limit", "padding of %u and %u bytes, at most 32", left, right);
    if constexpr (sizeof(T) == 8) {
        dma.require(!pad.isPad || pad.paddingValue == 0, "limit", "%s", "paddingValue of a 64-bit type must be 0");
    }
    const uint64_t padded = dsv4::host::round_up(left + params.blockLen + right, kBlock);
    copy_in(dma, dst.view(), src.view(),
            {params.blockCount, params.blockLen, uint64_t{params.blockLen} + params.srcStride,
             padded + uint64_t{params.dstStride} * kBlock},
            left, right, &pad.paddingValue, sizeof(T));
}

// Writes exactly blockLen bytes per block; neighbours in GM stay as they are.
template <typename T>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& params,
                 dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(dsv4::host::copyable<T>, "DataCopyPad: element type");
    using dsv4::host::kBlock;
    dsv4::host::Instruction dma(PIPE_MTE3, dsv4::host::Role::DMA_OUT, "DataCopyPad", where);
    pad_limits(dma, params, sizeof(T));
    copy_out(dma, dst.view(), src.view(),
             {params.blockCount, params.blockLen, uint64_t{params.blockLen} + params.dstStride,
              dsv4::host::round_up(params.blockLen, kBlock) + uint64_t{params.srcStride} * kBlock});
}

// CANN's older forms with 16-bit lengths. They are declared so that bare braces which are ambiguous there are ambiguous
// here: name DataCopyExtParams.
template <typename T>
void DataCopyPad(const LocalTensor<T>&, const GlobalTensor<T>&, const DataCopyParams&,
                 const DataCopyPadParams&) = delete;
template <typename T>
void DataCopyPad(const GlobalTensor<T>&, const LocalTensor<T>&, const DataCopyParams&) = delete;

}  // namespace AscendC
