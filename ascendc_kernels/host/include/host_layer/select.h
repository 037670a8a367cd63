// Compare, CompareScalar, Select and Gather.
#pragma once

#include "host_layer/vector.h"

namespace dsv4::host {

template <typename T>
bool holds(AscendC::CMPMODE mode, T a, T b) {
    switch (mode) {
        case AscendC::CMPMODE::LT:
            return a < b;
        case AscendC::CMPMODE::GT:
            return a > b;
        case AscendC::CMPMODE::EQ:
            return a == b;
        case AscendC::CMPMODE::LE:
            return a <= b;
        case AscendC::CMPMODE::GE:
            return a >= b;
        default:
            return a != b;
    }
}

template <typename T>
void compare_rules(Instruction& op, AscendC::CMPMODE mode, uint32_t count) {
    op.require(std::is_same_v<T, float> || mode == AscendC::CMPMODE::EQ, "limit", "%s", "int32 compares with EQ only");
    op.require(uint64_t{count} * sizeof(T) % kRepeat == 0, "limit", "%u elements are not whole repeats of 256 B",
               count);
}

inline void write_bit(uint8_t* bits, uint32_t i, bool value) {
    const auto bit = static_cast<uint8_t>(1u << (i % 8));
    bits[i / 8] = static_cast<uint8_t>(value ? bits[i / 8] | bit : bits[i / 8] & ~bit);
}

}  // namespace dsv4::host

namespace AscendC {

// Bit i of dst (little endian) = src0[i] MODE src1[i].
template <typename T>
void Compare(const LocalTensor<uint8_t>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode,
             uint32_t count, dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(dsv4::host::one_of<T, float, int32_t>, "host layer: Compare of float or int32");
    dsv4::host::Instruction op(PIPE_V, dsv4::host::Role::VECTOR, "Compare", where);
    if (!dsv4::host::has_work(op, count)) return;
    dsv4::host::compare_rules<T>(op, mode, count);
    op.counts(uint64_t{count} * sizeof(T));
    dsv4::host::read_operand(op, src0, count);
    dsv4::host::read_operand(op, src1, count);
    dsv4::host::write_operand(op, dst, count / 8);
    for (uint32_t i = 0; i < count; ++i) {
        dsv4::host::write_bit(dst.data(), i, dsv4::host::holds(mode, src0.data()[i], src1.data()[i]));
    }
}

template <typename T>
void CompareScalar(const LocalTensor<uint8_t>& dst, const LocalTensor<T>& src, T scalar, CMPMODE mode, uint32_t count,
                   dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(dsv4::host::one_of<T, float, int32_t>, "host layer: CompareScalar of float or int32");
    dsv4::host::Instruction op(PIPE_V, dsv4::host::Role::VECTOR, "CompareScalar", where);
    if (!dsv4::host::has_work(op, count)) return;
    dsv4::host::compare_rules<T>(op, mode, count);
    op.counts(uint64_t{count} * sizeof(T));
    dsv4::host::read_operand(op, src, count);
    dsv4::host::write_operand(op, dst, count / 8);
    for (uint32_t i = 0; i < count; ++i) {
        dsv4::host::write_bit(dst.data(), i, dsv4::host::holds(mode, src.data()[i], scalar));
    }
}

// dst[i] = bit i of mask ? src0[i] : src1[i]. Moves bits; view int32 as float.
template <typename T>
void Select(const LocalTensor<T>& dst, const LocalTensor<uint8_t>& mask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE mode, uint32_t count,
            dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(dsv4::host::one_of<T, float, half>, "Select: float or half; ReinterpretCast int32 to float");
    dsv4::host::Instruction op(PIPE_V, dsv4::host::Role::VECTOR, "Select", where);
    if (!dsv4::host::has_work(op, count)) return;
    op.require(mode == SELMODE::VSEL_TENSOR_TENSOR_MODE, "limit", "%s",
               "Select of two tensors: the subset has VSEL_TENSOR_TENSOR_MODE");
    op.counts(uint64_t{count} * sizeof(T));
    dsv4::host::read_operand(op, mask, (count + 7) / 8);
    dsv4::host::read_operand(op, src0, count);
    dsv4::host::read_operand(op, src1, count);
    dsv4::host::write_operand(op, dst, count);
    for (uint32_t i = 0; i < count; ++i) {
        dst.data()[i] = mask.data()[i / 8] >> (i % 8) & 1 ? src0.data()[i] : src1.data()[i];
    }
}

// dst[i] = bit i of mask ? src0[i] : scalar.
template <typename T>
void Select(const LocalTensor<T>& dst, const LocalTensor<uint8_t>& mask, const LocalTensor<T>& src0, T scalar,
            SELMODE mode, uint32_t count, dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(dsv4::host::one_of<T, float, half>, "Select: float or half; ReinterpretCast int32 to float");
    dsv4::host::Instruction op(PIPE_V, dsv4::host::Role::VECTOR, "Select", where);
    if (!dsv4::host::has_work(op, count)) return;
    op.require(mode == SELMODE::VSEL_TENSOR_SCALAR_MODE, "limit", "%s",
               "Select with a scalar needs VSEL_TENSOR_SCALAR_MODE");
    op.counts(uint64_t{count} * sizeof(T));
    dsv4::host::read_operand(op, mask, (count + 7) / 8);
    dsv4::host::read_operand(op, src0, count);
    dsv4::host::write_operand(op, dst, count);
    for (uint32_t i = 0; i < count; ++i) {
        dst.data()[i] = mask.data()[i / 8] >> (i % 8) & 1 ? src0.data()[i] : scalar;
    }
}

// dst[i] = *(src + base + offset[i]), offsets and base in bytes from the start of src.
template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset, uint32_t base,
            uint32_t count, dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(dsv4::host::one_of<T, half, bfloat16_t, int16_t, uint16_t, int32_t, uint32_t, float>,
                  "Gather: 16 and 32-bit types only");
    dsv4::host::Instruction op(PIPE_V, dsv4::host::Role::VECTOR, "Gather", where);
    if (!dsv4::host::has_work(op, count)) return;
    op.counts(uint64_t{count} * 4);
    dsv4::host::read_operand(op, offset, count);
    op.operand(src.view(), 0, dsv4::host::kBlock);
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t at = uint64_t{base} + offset.data()[i];
        op.require(at % sizeof(T) == 0, "limit", "offset %llu is not a multiple of the element size",
                   static_cast<unsigned long long>(at));
        op.require(at + sizeof(T) <= src.view().bytes, "UB out of bounds", "gather at byte %llu of %u",
                   static_cast<unsigned long long>(at), src.view().bytes);
        const uint8_t* element = src.view().data + at;
        op.require(element < dst.view().data || element >= dst.view().data + count * sizeof(T), "operand overlap",
                   "gathers byte %llu, which it also writes", static_cast<unsigned long long>(at));
        op.reads(element, sizeof(T));
    }
    dsv4::host::write_operand(op, dst, count);
    for (uint32_t i = 0; i < count; ++i) {
        std::memcpy(dst.data() + i, src.view().data + base + offset.data()[i], sizeof(T));
    }
}

}  // namespace AscendC
