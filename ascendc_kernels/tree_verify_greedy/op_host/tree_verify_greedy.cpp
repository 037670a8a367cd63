#include "tree_verify_greedy.h"

#include <algorithm>

#include "../op_kernel/tree_verify_greedy_layout.h"
#include "launch.h"

#if defined(DSV4_NPU)
#include "aclrtlaunch_tree_verify_greedy.h"
#else
extern "C" void tree_verify_greedy(dsv4::GmAddress predicts, dsv4::GmAddress accept_index,
                                   dsv4::GmAddress accept_token_num, dsv4::GmAddress candidates,
                                   dsv4::GmAddress retrieve_index, dsv4::GmAddress next_token,
                                   dsv4::GmAddress next_sibling, dsv4::GmAddress target, uint32_t wide, uint32_t bs,
                                   uint32_t n, uint32_t columns, uint32_t group);
#endif

using namespace dsv4::tree_verify_greedy;

namespace {

int refuse(const char* name, int64_t value, int64_t lowest, int64_t highest, char* error, size_t error_size) {
    if (value >= lowest && value <= highest) return DSV4_OK;
    return dsv4::fail(DSV4_BAD_ARGUMENT, error, error_size, "tree_verify_greedy: %s=%lld is outside %lld..%lld", name,
                      (long long)value, (long long)lowest, (long long)highest);
}

}  // namespace

extern "C" int dsv4_tree_verify_greedy(const TreeVerifyGreedyArgs* args, void* stream, char* error, size_t error_size) {
    if (int status = refuse("bs", args->bs, 0, kMaxRequests, error, error_size)) return status;
    if (int status = refuse("n", args->n, 1, kMaxNodes, error, error_size)) return status;
    if (int status = refuse("columns", args->columns, 1, kMaxColumns, error, error_size)) return status;
    uint32_t wide = 0;
    for (uint32_t i = 0; i < OPERANDS; ++i) {
        if (args->element_bytes[i] != 4 && args->element_bytes[i] != 8) {
            return dsv4::fail(DSV4_BAD_ARGUMENT, error, error_size,
                              "tree_verify_greedy: tensor %u has elements of %lld bytes, not 4 or 8", i,
                              (long long)args->element_bytes[i]);
        }
        if (args->element_bytes[i] == 8) wide |= 1u << i;
    }
    if (args->bs == 0) return DSV4_OK;
    const auto bs = static_cast<uint32_t>(args->bs), n = static_cast<uint32_t>(args->n);
    const auto columns = static_cast<uint32_t>(args->columns);
    const uint32_t blocks = std::min(dsv4::aiv_cores(), bs);
    // A core holds as many requests as fit into UB, at most its share.
    const uint32_t group = std::min(kGroupBytes / request_bytes(n, columns), (bs + blocks - 1) / blocks);

    dsv4::Launch launch("tree_verify_greedy", blocks, stream);
    const auto bytes = [&](Operand which, uint32_t width) {
        return uint64_t{bs} * width * static_cast<uint64_t>(args->element_bytes[which]);
    };
    auto* predicts = launch.inout(args->predicts, bytes(PREDICTS, n), "predicts");
    auto* accept_index = launch.inout(args->accept_index, bytes(ACCEPT_INDEX, columns), "accept_index");
    auto* accept_token_num = launch.output(args->accept_token_num, bytes(ACCEPT_TOKEN_NUM, 1), "accept_token_num");
    auto* candidates = launch.input(args->candidates, bytes(CANDIDATES, n), "candidates");
    auto* retrieve_index = launch.input(args->retrieve_index, bytes(RETRIEVE_INDEX, n), "retrieve_index");
    auto* next_token = launch.input(args->retrieve_next_token, bytes(NEXT_TOKEN, n), "retrieve_next_token");
    auto* next_sibling = launch.input(args->retrieve_next_sibling, bytes(NEXT_SIBLING, n), "retrieve_next_sibling");
    auto* target = launch.input(args->target_predict, bytes(TARGET, n), "target_predict");
    return DSV4_LAUNCH(launch, tree_verify_greedy, error, error_size, predicts, accept_index, accept_token_num,
                       candidates, retrieve_index, next_token, next_sibling, target, wide, bs, n, columns, group);
}
