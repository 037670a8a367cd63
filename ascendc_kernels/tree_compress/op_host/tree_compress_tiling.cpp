#include "tree_compress_tiling.h"

#include <algorithm>

#include "launch.h"

namespace dsv4::tree_compress {

namespace {

bool power_of_two(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

constexpr int64_t kMaxRows = int64_t{1} << 31;  // row numbers are int32 in UB

}  // namespace

int tile(const TreeCompressArgs& args, uint32_t cores, Tiling& tiling, char* error, size_t error_size) {
    if (args.coff != 1 && args.coff != 2) {
        return fail(DSV4_BAD_ARGUMENT, error, error_size, "tree_compress: coff %lld, must be 1 (C128) or 2 (C4)",
                    (long long)args.coff);
    }
    if (!power_of_two(args.dim) || args.dim < kMinDim || args.dim > kMaxDim) {
        return fail(DSV4_BAD_ARGUMENT, error, error_size, "tree_compress: dim %lld, must be a power of two in %u..%u",
                    (long long)args.dim, kMinDim, kMaxDim);
    }
    if (!power_of_two(args.ratio) || args.coff * args.ratio < kMinSlots || args.coff * args.ratio > kMaxSlots) {
        return fail(DSV4_BAD_ARGUMENT, error, error_size,
                    "tree_compress: a window of %lld slots, must be a power of two in %u..%u",
                    (long long)(args.coff * args.ratio), kMinSlots, kMaxSlots);
    }
    if (args.rope < 8 || args.rope % 8 != 0 || args.rope > kMaxRope || args.rope > args.dim) {
        return fail(DSV4_BAD_ARGUMENT, error, error_size, "tree_compress: rope %lld, must be a multiple of 8 up to %u",
                    (long long)args.rope, kMaxRope);
    }
    if (args.rows < 0 || args.rows >= kMaxRows || args.state_rows < 0 || args.state_rows >= kMaxRows) {
        return fail(DSV4_BAD_ARGUMENT, error, error_size, "tree_compress: %lld rows, %lld state rows",
                    (long long)args.rows, (long long)args.state_rows);
    }
    if (args.mode != TREE_COMPRESS_FP32 && args.mode != TREE_COMPRESS_PAIRS) {
        return fail(DSV4_BAD_ARGUMENT, error, error_size, "tree_compress: mode %lld", (long long)args.mode);
    }
    tiling.blocks = static_cast<uint32_t>(std::min<int64_t>(cores, args.rows));
    tiling.eps = static_cast<float>(args.norm_eps);
    tiling.eps_low = static_cast<float>(args.norm_eps - tiling.eps);
    return DSV4_OK;
}

int validate(const TreeCompressArgs& args, char* error, size_t error_size) {
    const int64_t slots = args.coff * args.ratio;
    for (int64_t row = 0; row < args.rows; ++row) {
        if (args.closes[row] == 0) continue;
        for (int64_t slot = 0; slot < slots; ++slot) {
            const int64_t entry = args.window[row * slots + slot];
            if (entry == kAbsent || (entry >= 0 ? entry < args.state_rows : entry >= -args.rows)) continue;
            return fail(DSV4_BAD_ARGUMENT, error, error_size,
                        "tree_compress: window[%lld, %lld] is %lld, where the state has %lld rows and the tree %lld",
                        (long long)row, (long long)slot, (long long)entry, (long long)args.state_rows,
                        (long long)args.rows);
        }
    }
    return DSV4_OK;
}

}  // namespace dsv4::tree_compress
