#include "history.h"

namespace dsv4::host {

namespace {

constexpr uint64_t kLine = 256;  // bytes: long DMAs take few lines, scalar tables few records per line

bool overlap(const Access& a, const Access& b) { return a.begin < b.end && b.begin < a.end; }

bool same_instruction(const Access& a, const Access& b) {
    return a.core == b.core && a.pipe == b.pipe && a.number == b.number;
}

// Inside one line: does `a` touch every byte that `b` touches?
bool covers(const Access& a, const Access& b, uint64_t line) {
    const uint64_t low = line * kLine, high = low + kLine;
    return std::max(a.begin, low) <= std::max(b.begin, low) && std::min(a.end, high) >= std::min(b.end, high);
}

}  // namespace

// bisheng's --cce-auto-sync=on orders scalar access to UB tensors, dependent vector instructions, and scalar GM reads.
// It does not order GlobalTensor::SetValue, DMA against DMA, or cores.
bool History::synchronised_by_compiler(const Access& earlier, const Access& later) const {
    if (!autosync_ || earlier.core != later.core) return false;
    const bool first_scalar = earlier.pipe == PIPE_S, second_scalar = later.pipe == PIPE_S;
    if (space_ == Space::UB) {
        return first_scalar != second_scalar || (earlier.pipe == PIPE_V && later.pipe == PIPE_V);
    }
    return (first_scalar && !earlier.write) || (second_scalar && !later.write);
}

bool History::ordered(const Access& earlier, const Access& later, const Clock& clock) const {
    if (earlier.core != later.core) return earlier.epoch < later.epoch;
    return clock.knows(later.pipe, earlier.pipe, earlier.number) || synchronised_by_compiler(earlier, later);
}

const Access* History::add(const Access& access, const Clock& clock) {
    static thread_local Access found;
    bool racing = false;
    for (uint64_t line = access.begin / kLine; line <= (access.end - 1) / kLine && !racing; ++line) {
        std::vector<Access>& known = lines_[line];
        size_t kept = 0;
        for (size_t i = 0; i < known.size(); ++i) {
            const Access& earlier = known[i];
            const bool both_touch = overlap(earlier, access);
            const bool happens_before = same_instruction(earlier, access) || ordered(earlier, access, clock);
            const bool same_pipe = earlier.core == access.core && earlier.pipe == access.pipe;
            if (both_touch && (earlier.write || access.write) && !happens_before) {
                // Two pipes say more about the missing edge than one pipe against itself.
                if (!racing || !same_pipe) found = earlier;
                racing = true;
            }
            // Whatever races with a forgotten access also races with the one that replaces it. For two reads of one
            // pipe that needs no edge: who waits for the later one waits for the earlier one.
            const bool replaced = both_touch && covers(access, earlier, line) &&
                                  (access.write ? happens_before : !earlier.write && same_pipe);
            if (replaced) continue;
            if (kept != i) known[kept] = earlier;
            ++kept;
        }
        known.resize(kept);
        known.push_back(access);
    }
    return racing ? &found : nullptr;
}

}  // namespace dsv4::host
