// Number formats and the order of sums.
#include "host_layer/cast.h"
#include "host_layer/reduce.h"

namespace dsv4::host {

float widen(half value) {
    const uint32_t sign = uint32_t{value.bits} >> 15 << 31;
    const uint32_t exponent = value.bits >> 10 & 31u, mantissa = value.bits & 1023u;
    if (exponent == 0) {
        const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
        return sign ? -magnitude : magnitude;
    }
    const uint32_t bits = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | mantissa << 13;
    float result;
    std::memcpy(&result, &bits, 4);
    return result;
}

half narrow_half(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};
    if (magnitude >= 0x47800000u) return {static_cast<uint16_t>(sign | 0x7c00u)};
    if (magnitude < 0x38800000u) {
        // Subnormal: the spacing is 2^-24, and nearbyint rounds half to even.
        const float steps = std::nearbyint(std::ldexp(std::fabs(value), 24));
        return {static_cast<uint16_t>(sign | static_cast<uint16_t>(steps))};
    }
    const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return {static_cast<uint16_t>(sign | ((rounded >> 13) - (112u << 10)))};
}

float tree_sum(const float* lanes, uint32_t count) {
    float level[64] = {};
    std::memcpy(level, lanes, count * sizeof(float));
    for (uint32_t width = 64; width > 1; width /= 2) {
        for (uint32_t i = 0; i < width / 2; ++i) level[i] = level[2 * i] + level[2 * i + 1];
    }
    return level[0];
}

}  // namespace dsv4::host
