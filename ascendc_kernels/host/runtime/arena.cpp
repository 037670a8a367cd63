#include "arena.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "hazard.h"

namespace dsv4::host {

namespace {

uint8_t* pointer(uint64_t address) { return reinterpret_cast<uint8_t*>(address); }

// "bytes [-4, 0) <where> x, which has 1024": relative to the tensor's start.
std::string bytes_of(const Region& tensor, int64_t begin, int64_t end, const char* where) {
    return text("bytes [%lld, %lld) %s %s, which has %llu", static_cast<long long>(begin), static_cast<long long>(end),
                where, tensor.name.c_str(), static_cast<unsigned long long>(tensor.end - tensor.begin));
}

}  // namespace

void Arena::declare(const void* data, uint64_t bytes, bool writable, const char* name) {
    const auto begin = reinterpret_cast<uint64_t>(data);
    declared_.push_back({begin, begin + bytes, begin, writable, name});
    if (data == nullptr) return;
    const auto later = std::upper_bound(sorted_.begin(), sorted_.end(), begin,
                                        [](uint64_t value, const Region& tensor) { return value < tensor.begin; });
    sorted_.insert(later, declared_.back());
}

void Arena::fill(Regions& regions) {
    for (const Region& tensor : declared_) {
        if (tensor.begin == 0 && tensor.end != 0) {
            throw std::runtime_error(text("tensor %s has %llu bytes at no address", tensor.name.c_str(),
                                          static_cast<unsigned long long>(tensor.end)));
        }
    }
    uint64_t size = kRedZone;
    std::vector<uint64_t> offsets;
    for (size_t i = 0; i < sorted_.size(); ++i) {
        const Region& tensor = sorted_[i];
        if (!spans_.empty() && tensor.begin < spans_.back().end) {
            Span& span = spans_.back();
            size += std::max(span.end, tensor.end) - span.end;
            span.end = std::max(span.end, tensor.end);
            span.last = i + 1;
            continue;
        }
        size += kRedZone;
        offsets.push_back(size + (tensor.begin - size) % kAlign);
        size = offsets.back() + (tensor.end - tensor.begin);
        spans_.push_back({tensor.begin, tensor.end, i, i + 1, nullptr});
    }
    if (spans_.empty()) return;
    size += kRedZone;
    memory_.reset(new uint8_t[size + kAlign]);
    begin_ = pointer((reinterpret_cast<uint64_t>(memory_.get()) + kAlign - 1) / kAlign * kAlign);
    end_ = begin_ + size;
    for (size_t i = 0; i < spans_.size(); ++i) {
        spans_[i].copy = begin_ + offsets[i];
        std::memcpy(spans_[i].copy, pointer(spans_[i].begin), spans_[i].end - spans_[i].begin);
    }
    for (size_t i = 0; i <= spans_.size(); ++i) zone(i).paint();
    for (Region tensor : declared_) {
        const auto copy = reinterpret_cast<uint64_t>(placed(pointer(tensor.begin)));
        tensor.end = copy + (tensor.end - tensor.begin);
        tensor.begin = copy;
        regions.add(tensor);
    }
}

uint8_t* Arena::placed(uint8_t* address) const {
    const auto place = reinterpret_cast<uint64_t>(address);
    const auto next = std::upper_bound(spans_.begin(), spans_.end(), place,
                                       [](uint64_t value, const Span& span) { return value < span.begin; });
    if (next == spans_.begin()) return address;
    const Span& span = *(next - 1);
    const bool inside = place < span.end || place == span.begin;  // also an empty tensor has a place
    return inside ? span.copy + (place - span.begin) : address;
}

std::string Arena::damage() const {
    if (memory_ == nullptr) return {};
    for (size_t i = 0; i < spans_.size(); ++i) {
        std::string found = damage_of_zone(i);
        for (size_t t = spans_[i].first; t < spans_[i].last && found.empty(); ++t) {
            if (!sorted_[t].writable) found = damage_of_input(sorted_[t], spans_[i]);
        }
        if (!found.empty()) return found;
    }
    return damage_of_zone(spans_.size());
}

void Arena::give_back() const {
    for (const Span& span : spans_) {
        for (size_t i = span.first; i < span.last; ++i) {
            const Region& tensor = sorted_[i];
            if (!tensor.writable) continue;
            std::memcpy(pointer(tensor.begin), span.copy + (tensor.begin - span.begin), tensor.end - tensor.begin);
        }
    }
}

RedZone Arena::zone(size_t index) const {
    return {index == 0 ? begin_ : copy_end(spans_[index - 1]), index == spans_.size() ? end_ : spans_[index].copy};
}

std::string Arena::damage_of_zone(size_t index) const {
    const RedZone all = zone(index), changed = all.changed();
    if (changed.empty()) return {};
    const bool nearer_above = changed.begin() - all.begin() < all.end() - changed.end();
    const bool after = index == spans_.size() || (index > 0 && nearer_above);
    const Span& span = spans_[after ? index - 1 : index];
    size_t at = span.first;
    while (after && sorted_[at].end != span.end) ++at;
    const uint8_t* start = span.copy + (sorted_[at].begin - span.begin);
    return "red zone overwritten: " +
           bytes_of(sorted_[at], changed.begin() - start, changed.end() - start, after ? "after" : "before");
}

std::string Arena::damage_of_input(const Region& input, const Span& span) const {
    uint64_t at = input.begin;
    std::string found;
    for (size_t i = span.first; i < span.last && found.empty(); ++i) {
        if (!sorted_[i].writable) continue;
        found = difference(input, span, at, std::min(sorted_[i].begin, input.end));
        at = std::max(at, sorted_[i].end);
    }
    return found.empty() ? difference(input, span, at, input.end) : found;
}

std::string Arena::difference(const Region& input, const Span& span, uint64_t begin, uint64_t end) const {
    if (begin >= end) return {};
    const uint8_t *caller = pointer(begin), *copy = span.copy + (begin - span.begin);
    const uint64_t bytes = end - begin;
    if (std::memcmp(caller, copy, bytes) == 0) return {};
    uint64_t first = 0;
    while (caller[first] == copy[first]) ++first;
    uint64_t last = first;
    while (last < bytes && caller[last] != copy[last]) ++last;
    const auto offset = static_cast<int64_t>(begin - input.begin);
    return "read-only tensor changed: " +
           bytes_of(input, offset + static_cast<int64_t>(first), offset + static_cast<int64_t>(last), "of");
}

}  // namespace dsv4::host
