// Softmax pooling of one load: slots x channels of kv and score in UB to sum(exp) and sum(exp * kv) per channel.
#pragma once

#include "exponential.h"
#include "kernel_operator.h"
#include "tree_compress_layout.h"

namespace dsv4::tree_compress {

using lanes::Lanes;
using lanes::Pair;

// Scratch lanes of kTile each, shared by pooling and finish.
constexpr uint32_t kScratch = 16;

class Scratch {
 public:
    __aicore__ inline void Init(AscendC::TPipe* pipe) { pipe->InitBuffer(buffer_, kScratch * kTile * sizeof(float)); }
    __aicore__ inline Lanes operator[](uint32_t index) {
        return buffer_.GetWithOffset<float>(kTile, index * kTile * sizeof(float));
    }
    __aicore__ inline Lanes Wide(uint32_t count) { return buffer_.GetWithOffset<float>(count, 0); }

 private:
    AscendC::TBuf<AscendC::TPosition::VECCALC> buffer_;
};

// EXACT: pairs of floats throughout, else fp32.
template <bool EXACT>
class Pool {
 public:
    __aicore__ inline void Init(Scratch* scratch, uint32_t slots, uint32_t chunk) {
        scratch_ = scratch;
        elements_ = slots * chunk;
        chunk_ = chunk;
        tile_ = elements_ < kTile ? elements_ : kTile;
    }

    // kv, score: [slots, chunk], used up. sum, weighted: [chunk].
    __aicore__ inline void Run(const Lanes& kv, const Lanes& score, const Pair& sum, const Pair& weighted) {
        NegativeMaximum(score);
        Clear(sum);
        Clear(weighted);
        for (uint32_t first = 0; first < elements_; first += tile_) {
            Tile(kv[first], score[first]);
            Fold(Weight(), sum);
            Fold(Product(), weighted);
        }
    }

 private:
    enum Use : uint32_t { MAXIMUM = 2, GUARD, X_HI, X_LO, WEIGHT_HI, WEIGHT_LO, R, K, E, T, P, ERROR, R_HIGH, R_LOW };

    // The split of the second factor shares the two lanes that the maximum is halved in.
    __aicore__ inline lanes::ExpScratch Exp() {
        Scratch& s = *scratch_;
        return {s[R], s[K], s[E], s[T], s[P], s[ERROR], {s[R_HIGH], s[R_LOW]}, {s[0], s[1]}};
    }
    __aicore__ inline Pair Weight() { return {(*scratch_)[WEIGHT_HI], (*scratch_)[WEIGHT_LO]}; }

    __aicore__ inline Pair Product() { return {(*scratch_)[P], (*scratch_)[ERROR]}; }

    __aicore__ inline void Clear(const Pair& pair) {
        lanes::fill(pair.hi, 0.0f, chunk_);
        if constexpr (EXACT) lanes::fill(pair.lo, 0.0f, chunk_);
    }

    __aicore__ inline void NegativeMaximum(const Lanes& score) {
        uint32_t half = elements_ / 2;
        const Lanes wide = scratch_->Wide(half);
        const Lanes maximum = (*scratch_)[MAXIMUM];
        lanes::larger(wide, score, score[half], half);
        for (half /= 2; half >= chunk_; half /= 2) lanes::larger(wide, wide, wide[half], half);
        lanes::muls(maximum, wide, -1.0f, chunk_);
        lanes::repeat(maximum, chunk_, tile_);
    }

    // Weight() = exp(score - maximum) of a tile, Product() = Weight() * kv.
    __aicore__ inline void Tile(const Lanes& kv, const Lanes& score) {
        Scratch& s = *scratch_;
        if constexpr (!EXACT) {
            lanes::add(s[WEIGHT_HI], score, s[MAXIMUM], tile_);
            lanes::exponential(s[WEIGHT_HI], s[WEIGHT_HI], tile_);
            lanes::mul(s[P], s[WEIGHT_HI], kv, tile_);
        } else {
            // NaN where the score is NaN or the window has no finite score; 0 elsewhere. What follows clamps.
            lanes::add(s[GUARD], score, s[MAXIMUM], tile_);
            lanes::exponential(s[GUARD], s[GUARD], tile_);
            lanes::muls(s[GUARD], s[GUARD], 0.0f, tile_);
            lanes::at_least(score, score, -1.0e38f, tile_);
            lanes::two_sum(s[X_HI], s[X_LO], score, s[MAXIMUM], s[T], tile_);
            lanes::at_least(s[X_HI], s[X_HI], lanes::kSmallest, tile_);
            lanes::at_least(s[X_LO], s[X_LO], -0x1p-17f, tile_);
            lanes::at_most(s[X_LO], s[X_LO], 0x1p-17f, tile_);
            lanes::exponential(Weight(), {s[X_HI], s[X_LO]}, Exp(), tile_);
            lanes::add(s[WEIGHT_HI], s[WEIGHT_HI], s[GUARD], tile_);
            lanes::split({s[R_HIGH], s[R_LOW]}, s[WEIGHT_HI], tile_);
            lanes::split({s[0], s[1]}, kv, tile_);
            lanes::two_product(s[P], s[ERROR], s[WEIGHT_HI], {s[R_HIGH], s[R_LOW]}, kv, {s[0], s[1]}, s[T], tile_);
            lanes::multiply_add(s[ERROR], s[WEIGHT_LO], kv, s[T], tile_);
        }
    }

    // to += values summed over the slots of the tile.
    __aicore__ inline void Fold(const Pair& values, const Pair& to) {
        for (uint32_t half = tile_ / 2; half >= chunk_; half /= 2) Accumulate(values, values[half], half);
        Accumulate(to, values, chunk_);
    }

    __aicore__ inline void Accumulate(const Pair& to, const Pair& from, uint32_t n) {
        if constexpr (EXACT) {
            lanes::accumulate(to, from, (*scratch_)[T], (*scratch_)[E], n);
        } else {
            lanes::add(to.hi, to.hi, from.hi, n);
        }
    }

    Scratch* scratch_ = nullptr;
    uint32_t elements_ = 0;
    uint32_t chunk_ = 0;
    uint32_t tile_ = 0;
};

}  // namespace dsv4::tree_compress
