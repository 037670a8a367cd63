#include "tree_build.h"

#include <algorithm>

#include "../op_kernel/tree_build_layout.h"
#include "launch.h"

#if defined(DSV4_NPU)
#include "aclrtlaunch_tree_build.h"
#else
extern "C" void tree_build(dsv4::GmAddress parent_list, dsv4::GmAddress selected, dsv4::GmAddress scores,
                           dsv4::GmAddress seq_lens, dsv4::GmAddress positions, dsv4::GmAddress retrieve_index,
                           dsv4::GmAddress next_token, dsv4::GmAddress next_sibling, dsv4::GmAddress parent,
                           dsv4::GmAddress depth, dsv4::GmAddress ancestors, dsv4::GmAddress branch_table,
                           dsv4::GmAddress home, dsv4::GmAddress mask, uint64_t mask_bytes, int32_t mask_mode,
                           uint32_t wide, uint32_t bs, uint32_t topk, uint32_t steps, uint32_t n, uint32_t branches,
                           uint32_t group);
#endif

using namespace dsv4::tree_build;

namespace {

struct Limit {
    const char* name;
    int64_t value;
    int64_t lowest;
    int64_t highest;
};

int check(const TreeBuildArgs& args, char* error, size_t error_size) {
    const Limit limits[] = {{"bs", args.bs, 0, kMaxRequests},
                            {"topk", args.topk, 1, kMaxTopk},
                            {"steps", args.steps, 1, kMaxSteps},
                            {"n", args.n, 2, kMaxNodes},
                            {"max_branches", args.max_branches, 1, kMaxNodes},
                            {"mask_mode", args.mask_mode, NO_MASK, QLEN_ONLY_BITPACKING}};
    for (const Limit& limit : limits) {
        if (limit.value >= limit.lowest && limit.value <= limit.highest) continue;
        return dsv4::fail(DSV4_BAD_ARGUMENT, error, error_size, "tree_build: %s=%lld is outside %lld..%lld", limit.name,
                          (long long)limit.value, (long long)limit.lowest, (long long)limit.highest);
    }
    for (const int64_t bytes : {args.parent_list_bytes, args.selected_bytes, args.seq_lens_bytes}) {
        if (bytes == 4 || bytes == 8) continue;
        return dsv4::fail(DSV4_BAD_ARGUMENT, error, error_size, "tree_build: index elements of %lld bytes, not 4 or 8",
                          (long long)bytes);
    }
    if (args.mask_mode == QLEN_ONLY_BITPACKING && args.n > 32) {
        return dsv4::fail(DSV4_BAD_ARGUMENT, error, error_size,
                          "tree_build: n=%lld does not fit the 32 bits of a packed mask; use QLEN_ONLY",
                          (long long)args.n);
    }
    const int64_t square = args.bs * args.n * args.n;
    const int64_t packed = args.bs * args.n * packed_bytes(static_cast<uint32_t>(args.n));
    const bool fits = args.mask_mode == NO_MASK ? true
                      : args.mask_mode == FULL_MASK
                          ? args.mask_bytes >= square
                          : args.mask_bytes == (args.mask_mode == QLEN_ONLY ? square : packed);
    if (!fits) {
        return dsv4::fail(DSV4_BAD_ARGUMENT, error, error_size,
                          "tree_build: a mask of %lld bytes does not hold %lld requests of %lld nodes in mode %lld",
                          (long long)args.mask_bytes, (long long)args.bs, (long long)args.n, (long long)args.mask_mode);
    }
    return DSV4_OK;
}

}  // namespace

extern "C" int dsv4_tree_build(const TreeBuildArgs* args, void* stream, char* error, size_t error_size) {
    if (int status = check(*args, error, error_size)) return status;
    if (args->bs == 0) return DSV4_OK;
    const auto bs = static_cast<uint32_t>(args->bs), topk = static_cast<uint32_t>(args->topk);
    const auto steps = static_cast<uint32_t>(args->steps), n = static_cast<uint32_t>(args->n);
    const auto branches = static_cast<uint32_t>(args->max_branches);
    const auto mask_mode = static_cast<int32_t>(args->mask_mode);
    const auto mask_bytes = static_cast<uint64_t>(mask_mode == NO_MASK ? 0 : args->mask_bytes);
    const uint32_t blocks = std::min(dsv4::aiv_cores(), bs);
    // A core holds as many requests as fit into UB, at most its share; their mask is one DMA of group * n blocks.
    const uint32_t room = kGroupBytes / request_bytes(topk, steps, n, branches, mask_mode != NO_MASK);
    const uint32_t group = std::min({room, (bs + blocks - 1) / blocks, kMaxDmaBlocks / n});
    const uint32_t wide = (args->parent_list_bytes == 8 ? WIDE_PARENT_LIST : 0) |
                          (args->selected_bytes == 8 ? WIDE_SELECTED : 0) |
                          (args->seq_lens_bytes == 8 ? WIDE_SEQ_LENS : 0);

    dsv4::Launch launch("tree_build", blocks, stream);
    const uint64_t nodes = uint64_t{bs} * n;
    auto* parent_list = launch.input(
        args->parent_list, uint64_t{bs} * parent_list_width(topk, steps) * args->parent_list_bytes, "parent_list");
    auto* selected = launch.input(args->selected, (nodes - bs) * args->selected_bytes, "selected_index");
    auto* scores = launch.input(args->scores, (nodes - bs) * sizeof(float), "scores");
    auto* seq_lens = launch.input(args->seq_lens, uint64_t{bs} * args->seq_lens_bytes, "seq_lens");
    auto* positions = launch.output(args->positions, nodes * sizeof(int64_t), "positions");
    auto* retrieve_index = launch.output(args->retrieve_index, nodes * sizeof(int64_t), "retrieve_index");
    auto* next_token = launch.output(args->next_token, nodes * sizeof(int64_t), "retrieve_next_token");
    auto* next_sibling = launch.output(args->next_sibling, nodes * sizeof(int64_t), "retrieve_next_sibling");
    auto* parent = launch.output(args->parent, nodes * sizeof(int32_t), "parent");
    auto* depth = launch.output(args->depth, nodes * sizeof(int32_t), "depth");
    auto* ancestors = launch.output(args->ancestors, nodes * sizeof(int64_t), "ancestors");
    auto* branch_table =
        launch.output(args->branch_table, uint64_t{bs} * branches * (steps + 1) * sizeof(int32_t), "branch_table");
    auto* home = launch.output(args->home_branch, nodes * sizeof(int32_t), "home_branch");
    dsv4::GmAddress mask = mask_mode == NO_MASK ? nullptr : launch.output(args->mask, mask_bytes, "mask");
    return DSV4_LAUNCH(launch, tree_build, error, error_size, parent_list, selected, scores, seq_lens, positions,
                       retrieve_index, next_token, next_sibling, parent, depth, ancestors, branch_table, home, mask,
                       mask_bytes, mask_mode, wide, bs, topk, steps, n, branches, group);
}
