// What each pipe of one core knows to be finished.
#pragma once

#include <algorithm>

#include "host_layer/instruction.h"

namespace dsv4::host {

class Clock {
 public:
    // Number of the next instruction of a pipe. The scalar unit runs in order, so it has seen its own past.
    uint32_t issue(pipe_t pipe) {
        const uint32_t number = ++issued_[pipe];
        if (pipe == PIPE_S) seen_[PIPE_S].seen[PIPE_S] = number;
        return number;
    }

    // All instructions of `pipe` so far, and what they had waited for.
    Edge publish(pipe_t pipe) const {
        Edge edge = seen_[pipe];
        edge.seen[pipe] = issued_[pipe];
        return edge;
    }

    void join(pipe_t pipe, const Edge& edge) {
        for (int p = 0; p < 4; ++p) seen_[pipe].seen[p] = std::max(seen_[pipe].seen[p], edge.seen[p]);
    }

    void barrier(pipe_t pipe) {
        if (pipe != PIPE_ALL) {
            seen_[pipe].seen[pipe] = issued_[pipe];
            return;
        }
        for (auto& seen : seen_) std::copy(issued_, issued_ + 4, seen.seen);
    }

    bool knows(pipe_t pipe, pipe_t other, uint32_t number) const { return seen_[pipe].seen[other] >= number; }

 private:
    uint32_t issued_[4] = {0, 0, 0, 0};
    Edge seen_[4];
};

}  // namespace dsv4::host
