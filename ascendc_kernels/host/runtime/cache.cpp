#include "cache.h"

#include <algorithm>
#include <vector>

#include "host_layer/core.h"

namespace dsv4::host {

namespace {

// Bits of the bytes of `line` that [begin, end) touches.
uint64_t mask_of(uint64_t line, uint64_t begin, uint64_t end) {
    const uint64_t low = std::max(begin, line * kCacheLine) - line * kCacheLine;
    const uint64_t high = std::min(end, (line + 1) * kCacheLine) - line * kCacheLine;
    const uint64_t below_high = high == 64 ? ~uint64_t{0} : (uint64_t{1} << high) - 1;
    return below_high & ~((uint64_t{1} << low) - 1);
}

LineFault fault(const char* kind, const char* text, uint64_t line, const SharedLine& shared) {
    return {kind, text, line * kCacheLine, shared.writer};
}

}  // namespace

LineFault Cache::stale(uint64_t line) const {
    const auto mine = lines_.find(line);
    if (mine == lines_.end() || mine->second == shared_[line].version) return {};
    return fault("stale data-cache line", "was loaded before it was last written; DataCacheCleanAndInvalid first", line,
                 shared_[line]);
}

LineFault Cache::read(uint64_t address, uint64_t bytes) {
    for (uint64_t line = address / kCacheLine; line <= (address + bytes - 1) / kCacheLine; ++line) {
        if (LineFault old = stale(line); old.kind != nullptr) return old;
        lines_.emplace(line, shared_[line].version);
    }
    return {};
}

LineFault Cache::write(uint64_t address, uint64_t bytes, uint32_t epoch) {
    for (uint64_t line = address / kCacheLine; line <= (address + bytes - 1) / kCacheLine; ++line) {
        SharedLine& shared = shared_[line];
        if (shared.writer >= 0 && shared.writer != core_ && (shared.dirty != 0 || shared.epoch == epoch)) {
            return fault("false sharing of a data-cache line", "is written by the SetValue of two cores", line, shared);
        }
        if (LineFault old = stale(line); old.kind != nullptr) return old;
        lines_.emplace(line, shared.version);
        shared.writer = core_;
        shared.epoch = epoch;
        shared.dirty |= mask_of(line, address, address + bytes);
    }
    return {};
}

LineFault Cache::dma(uint64_t address, uint64_t bytes, bool write) {
    if (shared_.empty()) return {};
    for (uint64_t line = address / kCacheLine; line <= (address + bytes - 1) / kCacheLine; ++line) {
        const auto known = shared_.find(line);
        if (known == shared_.end()) continue;
        SharedLine& shared = known->second;
        // A later write-back replaces the whole line, so a DMA write next to dirty bytes is lost too.
        if (write ? shared.dirty != 0 : (shared.dirty & mask_of(line, address, address + bytes)) != 0) {
            return fault("dirty line vs DMA",
                         "holds bytes of SetValue that are not written back; "
                         "DataCacheCleanAndInvalid first",
                         line, shared);
        }
        if (write) ++shared.version;
    }
    return {};
}

void Cache::clean(uint64_t address) {
    const uint64_t line = address / kCacheLine;
    const auto known = shared_.find(line);
    if (known == shared_.end()) return;
    SharedLine& shared = known->second;
    if (shared.writer == core_ && shared.dirty != 0) {
        shared.dirty &= ~mask_of(line, address, (line + 1) * kCacheLine);
        ++shared.version;
        if (shared.dirty != 0) {
            lines_[line] = shared.version;
            return;
        }
    }
    lines_.erase(line);
}

void Cache::clean_all() {
    std::vector<uint64_t> lines;
    for (const auto& [line, version] : lines_) lines.push_back(line);
    for (uint64_t line : lines) clean(line * kCacheLine);
}

LineFault Cache::at_end() const {
    for (const auto& [line, version] : lines_) {
        const SharedLine& shared = shared_[line];
        if (shared.writer == core_ && shared.dirty != 0) {
            return fault("dirty line left", "was written by SetValue and never written back", line, shared);
        }
    }
    return {};
}

}  // namespace dsv4::host
