// Cast: the 2201 type pairs that our kernels use, each with its documented round modes.
#pragma once

#include <cmath>
#include <limits>

#include "host_layer/vector.h"

namespace dsv4::host {

inline float widen(bfloat16_t value) {
    const uint32_t bits = uint32_t{value.bits} << 16;
    float result;
    std::memcpy(&result, &bits, 4);
    return result;
}

float widen(half value);

// Half to even; NaN stays NaN, overflow goes to infinity.
inline bfloat16_t narrow_bf16(float value, bool truncate) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>(bits >> 16 | 0x40u)};
    if (!truncate) bits += 0x7fffu + (bits >> 16 & 1u);
    return {static_cast<uint16_t>(bits >> 16)};
}

half narrow_half(float value);

// Saturates; NaN becomes 0.
inline int32_t to_int32(float value, AscendC::RoundMode mode) {
    double whole = value;
    switch (mode) {
        case AscendC::RoundMode::CAST_FLOOR:
            whole = std::floor(whole);
            break;
        case AscendC::RoundMode::CAST_CEIL:
            whole = std::ceil(whole);
            break;
        case AscendC::RoundMode::CAST_ROUND:
            whole = std::round(whole);
            break;
        case AscendC::RoundMode::CAST_TRUNC:
            whole = std::trunc(whole);
            break;
        default:
            whole = std::nearbyint(whole);
            break;
    }
    if (!(whole == whole)) return 0;
    if (whole >= 2147483647.0) return std::numeric_limits<int32_t>::max();
    if (whole <= -2147483648.0) return std::numeric_limits<int32_t>::min();
    return static_cast<int32_t>(whole);
}

inline int32_t to_int32(int64_t value) {
    if (value > std::numeric_limits<int32_t>::max()) return std::numeric_limits<int32_t>::max();
    if (value < std::numeric_limits<int32_t>::min()) return std::numeric_limits<int32_t>::min();
    return static_cast<int32_t>(value);
}

template <typename D, typename S>
constexpr bool castable = (one_of<S, half, bfloat16_t> && std::is_same_v<D, float>) ||
                          (std::is_same_v<S, float> && one_of<D, half, bfloat16_t, int32_t>) ||
                          (std::is_same_v<S, int32_t> && one_of<D, float, int64_t>) ||
                          (std::is_same_v<S, int64_t> && std::is_same_v<D, int32_t>);

template <typename D, typename S>
bool round_mode_fits(AscendC::RoundMode mode) {
    using AscendC::RoundMode;
    const bool none = mode == RoundMode::CAST_NONE, rint = mode == RoundMode::CAST_RINT;
    if constexpr (one_of<S, half, bfloat16_t> || std::is_same_v<D, int64_t> || std::is_same_v<S, int64_t>) return none;
    if constexpr (std::is_same_v<D, bfloat16_t>) return rint || mode == RoundMode::CAST_TRUNC;
    if constexpr (std::is_same_v<D, half> || std::is_same_v<S, int32_t>) return none || rint;
    return !none;  // float -> int32
}

template <typename D, typename S>
D convert(S value, AscendC::RoundMode mode) {
    if constexpr (one_of<S, half, bfloat16_t>)
        return widen(value);
    else if constexpr (std::is_same_v<D, bfloat16_t>)
        return narrow_bf16(value, mode == AscendC::RoundMode::CAST_TRUNC);
    else if constexpr (std::is_same_v<D, half>)
        return narrow_half(value);
    else if constexpr (std::is_same_v<S, float>)
        return to_int32(value, mode);
    else if constexpr (std::is_same_v<S, int64_t>)
        return to_int32(value);
    else
        return static_cast<D>(value);
}

}  // namespace dsv4::host

namespace AscendC {

template <typename D, typename S>
void Cast(const LocalTensor<D>& dst, const LocalTensor<S>& src, const RoundMode& mode, uint32_t count,
          dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(dsv4::host::castable<D, S>, "Cast: type pair is not in the subset");
    if (!dsv4::host::round_mode_fits<D, S>(mode)) {
        dsv4::host::refuse("limit", where, "Cast: round mode %d is not in the subset for this type pair",
                           static_cast<int>(mode));
    }
    dsv4::host::Instruction op(PIPE_V, dsv4::host::Role::VECTOR, "Cast", where);
    if (!dsv4::host::has_work(op, count)) return;
    dsv4::host::no_partial_overlap(op, dst, src, count);
    op.counts(uint64_t{count} * (sizeof(D) > sizeof(S) ? sizeof(D) : sizeof(S)));
    dsv4::host::read_operand(op, src, count);
    dsv4::host::write_operand(op, dst, count);
    for (uint32_t i = 0; i < count; ++i) dst.data()[i] = dsv4::host::convert<D>(src.data()[i], mode);
}

}  // namespace AscendC
