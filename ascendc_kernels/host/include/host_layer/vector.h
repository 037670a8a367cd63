// Element-wise vector instructions, first-`count`-elements form. count 0 does nothing.
#pragma once

#include <cmath>

#include "host_layer/tensor.h"

namespace dsv4::host {

template <typename T>
constexpr bool arithmetic = one_of<T, float, int32_t, int16_t>;  // half is storage only; int64 has no vector path

// Equal start is in place; any other overlap is undefined.
template <typename D, typename S>
void no_partial_overlap(Instruction& op, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<S>& src,
                        uint32_t count) {
    const uint8_t *d = dst.view().data, *s = src.view().data;
    const bool apart = d + count * sizeof(D) <= s || s + count * sizeof(S) <= d;
    op.require(apart || (d == s && sizeof(D) == sizeof(S)), "operand overlap", "%s",
               "destination and source overlap partly");
}

template <typename T>
void read_operand(Instruction& op, const AscendC::LocalTensor<T>& tensor, uint64_t count) {
    op.operand(tensor.view(), count * sizeof(T), kBlock);
    op.reads(tensor.view().data, static_cast<uint32_t>(count * sizeof(T)));
}

template <typename T>
void write_operand(Instruction& op, const AscendC::LocalTensor<T>& tensor, uint64_t count, uint32_t align = kBlock) {
    op.operand(tensor.view(), count * sizeof(T), align);
    op.writes(tensor.view().data, static_cast<uint32_t>(count * sizeof(T)));
}

inline bool has_work(Instruction& op, int64_t count) {
    op.require(count >= 0, "limit", "count %lld is negative", static_cast<long long>(count));
    return count > 0;
}

template <typename T, typename F>
void unary(const char* name, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, int64_t count,
           Where where, F function) {
    Instruction op(PIPE_V, Role::VECTOR, name, where);
    if (!has_work(op, count)) return;
    no_partial_overlap(op, dst, src, static_cast<uint32_t>(count));
    op.counts(count * sizeof(T));
    read_operand(op, src, count);
    write_operand(op, dst, count);
    T* d = dst.data();
    const T* s = src.data();
    for (int64_t i = 0; i < count; ++i) d[i] = function(s[i]);
}

template <typename T, typename F>
void binary(const char* name, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& a,
            const AscendC::LocalTensor<T>& b, int64_t count, Where where, F function) {
    Instruction op(PIPE_V, Role::VECTOR, name, where);
    if (!has_work(op, count)) return;
    no_partial_overlap(op, dst, a, static_cast<uint32_t>(count));
    no_partial_overlap(op, dst, b, static_cast<uint32_t>(count));
    op.counts(count * sizeof(T));
    read_operand(op, a, count);
    read_operand(op, b, count);
    write_operand(op, dst, count);
    T* d = dst.data();
    const T *x = a.data(), *y = b.data();
    for (int64_t i = 0; i < count; ++i) d[i] = function(x[i], y[i]);
}

// Two's complement, as the vector unit wraps.
template <typename T>
T wrap(int64_t value) {
    return static_cast<T>(static_cast<uint64_t>(value));
}

template <typename T>
T add(T a, T b) {
    if constexpr (std::is_integral_v<T>)
        return wrap<T>(int64_t{a} + b);
    else
        return a + b;
}
template <typename T>
T subtract(T a, T b) {
    if constexpr (std::is_integral_v<T>)
        return wrap<T>(int64_t{a} - b);
    else
        return a - b;
}
template <typename T>
T multiply(T a, T b) {
    if constexpr (std::is_integral_v<T>)
        return wrap<T>(int64_t{a} * b);
    else
        return a * b;
}

}  // namespace dsv4::host

namespace AscendC {

#define DSV4_BINARY(NAME, TYPES, EXPRESSION)                                                                    \
    template <typename T>                                                                                       \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, int32_t count, \
              dsv4::host::Where where = dsv4::host::Where::here()) {                                            \
        static_assert(TYPES, #NAME ": element type is not supported on 2201");                                  \
        dsv4::host::binary(#NAME, dst, src0, src1, count, where, [](T a, T b) -> T { return EXPRESSION; });     \
    }
#define DSV4_SCALAR(NAME, EXPRESSION)                                                                    \
    template <typename T>                                                                                \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, int32_t count,      \
              dsv4::host::Where where = dsv4::host::Where::here()) {                                     \
        static_assert(dsv4::host::arithmetic<T>, #NAME ": element type is not supported on 2201");       \
        dsv4::host::unary(#NAME, dst, src, count, where, [b = scalar](T a) -> T { return EXPRESSION; }); \
    }
#define DSV4_UNARY(NAME, EXPRESSION)                                                           \
    template <typename T>                                                                      \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t count,             \
              dsv4::host::Where where = dsv4::host::Where::here()) {                           \
        static_assert(std::is_same_v<T, float>, "host layer: " #NAME " of float only");        \
        dsv4::host::unary(#NAME, dst, src, count, where, [](T a) -> T { return EXPRESSION; }); \
    }

DSV4_BINARY(Add, dsv4::host::arithmetic<T>, dsv4::host::add(a, b))
DSV4_BINARY(Sub, dsv4::host::arithmetic<T>, dsv4::host::subtract(a, b))
DSV4_BINARY(Mul, dsv4::host::arithmetic<T>, dsv4::host::multiply(a, b))
DSV4_BINARY(Max, dsv4::host::arithmetic<T>, a > b ? a : b)
DSV4_BINARY(Min, dsv4::host::arithmetic<T>, a < b ? a : b)
DSV4_BINARY(Div, (std::is_same_v<T, float>), a / b)
DSV4_SCALAR(Adds, dsv4::host::add(a, b))
DSV4_SCALAR(Muls, dsv4::host::multiply(a, b))
DSV4_SCALAR(Maxs, a > b ? a : b)
DSV4_SCALAR(Mins, a < b ? a : b)
DSV4_UNARY(Exp, std::exp(a))
DSV4_UNARY(Sqrt, std::sqrt(a))

#undef DSV4_BINARY
#undef DSV4_SCALAR
#undef DSV4_UNARY

template <typename T>
void Duplicate(const LocalTensor<T>& dst, const T& value, int32_t count,
               dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(dsv4::host::one_of<T, half, bfloat16_t, int16_t, uint16_t, int32_t, uint32_t, float>,
                  "Duplicate: 16 and 32-bit types only; view int64 or int8 data as int32");
    dsv4::host::Instruction op(PIPE_V, dsv4::host::Role::VECTOR, "Duplicate", where);
    if (!dsv4::host::has_work(op, count)) return;
    op.counts(count * sizeof(T));
    dsv4::host::write_operand(op, dst, count);
    for (int32_t i = 0; i < count; ++i) dst.data()[i] = value;
}

// dst[i] = first + i
template <typename T>
void CreateVecIndex(const LocalTensor<T>& dst, const T& first, uint32_t count,
                    dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(dsv4::host::one_of<T, int16_t, int32_t, float>, "CreateVecIndex: int16, int32 or float");
    dsv4::host::Instruction op(PIPE_V, dsv4::host::Role::VECTOR, "CreateVecIndex", where);
    if (!dsv4::host::has_work(op, count)) return;
    op.counts(count * sizeof(T));
    dsv4::host::write_operand(op, dst, count);
    for (uint32_t i = 0; i < count; ++i) dst.data()[i] = dsv4::host::add(first, static_cast<T>(i));
}

}  // namespace AscendC
