#include "regions.h"

namespace dsv4::host {

void Regions::add(const Region& region) {
    for (Region& known : regions_) {
        if (known.begin == region.begin && known.end == region.end) {
            known.writable |= region.writable;
            return;
        }
    }
    regions_.push_back(region);
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

const Region* Regions::at_home(uint64_t home, uint64_t bytes) const {
    for (const Region& region : regions_) {
        if (home < region.home + (region.end - region.begin) && region.home < home + bytes) return &region;
    }
    return nullptr;
}

bool Regions::writable(uint64_t begin, uint64_t end) const {
    for (const Region& region : regions_) {
        if (region.writable && begin >= region.begin && end <= region.end) return true;
    }
    return false;
}

}  // namespace dsv4::host
