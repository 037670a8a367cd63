#include "regions.h"

namespace dsv4::host {

void Regions::add(const void* data, uint64_t bytes, bool writable, const char* name) {
    const auto begin = reinterpret_cast<uint64_t>(data);
    for (Region& region : regions_) {
        if (region.begin == begin && region.end == begin + bytes) {
            region.writable |= writable;
            return;
        }
    }
    regions_.push_back({begin, begin + bytes, writable, name});
}

const Region* Regions::find(uint64_t root, uint64_t begin, uint64_t end) const {
    const Region* holder = nullptr;
    for (const Region& region : regions_) {
        if (root < region.begin || root >= region.end) continue;
        if (begin >= region.begin && end <= region.end) return &region;
        holder = &region;
    }
    return holder;
}

bool Regions::writable(uint64_t begin, uint64_t end) const {
    for (const Region& region : regions_) {
        if (region.writable && begin >= region.begin && end <= region.end) return true;
    }
    return false;
}

}  // namespace dsv4::host
