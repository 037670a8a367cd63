#include "tree_compress.h"

#include "launch.h"
#include "tree_compress_tiling.h"

#if defined(DSV4_NPU)
#include "aclrtlaunch_tree_compress.h"
#else
extern "C" void tree_compress(dsv4::GmAddress scratch, dsv4::GmAddress state, dsv4::GmAddress window,
                              dsv4::GmAddress closes, dsv4::GmAddress norm_weight, dsv4::GmAddress cos,
                              dsv4::GmAddress sin, dsv4::GmAddress out, int64_t rows, int64_t state_rows, uint32_t dim,
                              uint32_t coff, uint32_t slots, uint32_t rope, float eps, float eps_low, uint32_t exact);
#endif

extern "C" int dsv4_tree_compress(const TreeCompressArgs* args, void* stream, char* error, size_t error_size) {
    dsv4::tree_compress::Tiling tiling;
    if (int status = dsv4::tree_compress::tile(*args, dsv4::aiv_cores(), tiling, error, error_size)) return status;
    if (tiling.blocks == 0) return DSV4_OK;
#if DSV4_HOST_CHECK
    if (int status = dsv4::tree_compress::validate(*args, error, error_size)) return status;
#endif
    const auto dim = static_cast<uint32_t>(args->dim), coff = static_cast<uint32_t>(args->coff);
    const auto slots = static_cast<uint32_t>(args->coff * args->ratio), rope = static_cast<uint32_t>(args->rope);
    const uint64_t rows = args->rows, state_rows = args->state_rows, width = 2ull * coff * dim;
    dsv4::Launch launch("tree_compress", tiling.blocks, stream);
    auto* scratch = launch.input(args->scratch, rows * width * sizeof(float), "scratch");
    auto* state = launch.input(args->state, state_rows * width * sizeof(float), "state");
    auto* window = launch.input(args->window, rows * slots * sizeof(int64_t), "window");
    auto* closes = launch.input(args->closes, rows, "closes");
    auto* weight = launch.input(args->norm_weight, dim * sizeof(float), "norm_weight");
    auto* cos = launch.input(args->cos, rows * rope * sizeof(float), "cos");
    auto* sin = launch.input(args->sin, rows * rope * sizeof(float), "sin");
    auto* out = launch.output(args->out, rows * dim * 2, "out");
    return DSV4_LAUNCH(launch, tree_compress, error, error_size, scratch, state, window, closes, weight, cos, sin, out,
                       args->rows, args->state_rows, dim, coff, slots, rope, tiling.eps, tiling.eps_low,
                       static_cast<uint32_t>(args->mode));
}
