// Reductions of float.
#pragma once

#include "host_layer/vector.h"

namespace dsv4::host {

// Sum of up to 64 lanes, neighbours first, as the vector unit's adder tree.
float tree_sum(const float* lanes, uint32_t count);

}  // namespace dsv4::host

namespace AscendC {

// dst[0] = sum. Within 64 elements a binary tree, from one group of 64 to the next in order. work is not touched in
// this form on 2201, but keep it valid: other parts use it.
template <typename T>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work, int32_t count,
               dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(std::is_same_v<T, float>, "host layer: ReduceSum of float only");
    (void)work;
    dsv4::host::Instruction op(PIPE_V, dsv4::host::Role::VECTOR, "ReduceSum", where);
    if (!dsv4::host::has_work(op, count)) return;
    op.counts(uint64_t{4} * count);
    dsv4::host::read_operand(op, src, count);
    dsv4::host::write_operand(op, dst, 1, sizeof(T));
    float sum = 0.0f;
    for (int32_t i = 0; i < count; i += 64) {
        const float part = dsv4::host::tree_sum(src.data() + i, count - i < 64 ? count - i : 64);
        sum = i == 0 ? part : sum + part;
    }
    *dst.data() = sum;
}

// dst[r] (step dstRepStride elements) = sum of the first `mask` floats of repeat r; srcRepStride in 32 B units. A
// repeat is 256 B; srcBlkStride must be 1.
template <typename T>
void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t mask, int32_t repeats,
                    int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride,
                    dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(std::is_same_v<T, float>, "host layer: WholeReduceSum of float only");
    dsv4::host::Instruction op(PIPE_V, dsv4::host::Role::VECTOR, "WholeReduceSum", where);
    op.require(mask >= 1 && mask <= 64, "limit", "mask %d, 1..64 for 32-bit lanes", mask);
    op.require(repeats >= 0 && repeats <= 255, "limit", "%d repeats, at most 255", repeats);
    op.require(srcBlkStride == 1, "limit", "srcBlkStride %d; the subset has 1", srcBlkStride);
    op.require(dstRepStride >= 1 && srcRepStride >= 0, "limit", "strides %d and %d", dstRepStride, srcRepStride);
    for (int32_t r = 0; r < repeats; ++r) {
        const LocalTensor<T> in = src[static_cast<uint32_t>(r * srcRepStride * 8)];
        const LocalTensor<T> out = dst[static_cast<uint32_t>(r * dstRepStride)];
        op.counts(dsv4::host::kRepeat);
        dsv4::host::read_operand(op, in, mask);
        dsv4::host::write_operand(op, out, 1, sizeof(T));
        *out.data() = dsv4::host::tree_sum(in.data(), mask);
    }
}

// dst[0] = max; with index, dst[1] holds the bits of the uint32 index of the first maximum. NaN is not ordered.
template <typename T>
void ReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work, int32_t count,
               bool index = false, dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(std::is_same_v<T, float>, "host layer: ReduceMax of float only");
    dsv4::host::Instruction op(PIPE_V, dsv4::host::Role::VECTOR, "ReduceMax", where);
    if (!dsv4::host::has_work(op, count)) return;
    op.counts(uint64_t{4} * count);
    const uint32_t repeats = (count + 63) / 64;
    const uint32_t scratch = dsv4::host::round_up(repeats, 8) * (index ? 2 : 1);
    dsv4::host::read_operand(op, src, count);
    op.operand(work.view(), uint64_t{scratch} * sizeof(T), dsv4::host::kBlock);
    op.leaves_undefined(work.view().data, scratch * sizeof(T));
    dsv4::host::write_operand(op, dst, index ? 2 : 1, sizeof(T));
    uint32_t best = 0;
    for (int32_t i = 1; i < count; ++i) {
        if (src.data()[i] > src.data()[best]) best = static_cast<uint32_t>(i);
    }
    const T top = src.data()[best];
    *dst.data() = top;
    if (index) std::memcpy(dst.data() + 1, &best, sizeof(best));
}

}  // namespace AscendC
