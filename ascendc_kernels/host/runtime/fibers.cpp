#include "fibers.h"

#include <exception>

#include "hazard.h"

#if defined(__SANITIZE_ADDRESS__)
#define DSV4_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DSV4_ASAN 1
#endif
#endif
#if defined(DSV4_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif

namespace dsv4::host {

namespace {

#if defined(DSV4_ASAN)
constexpr size_t kStack = 1024 * 1024;
#else
constexpr size_t kStack = 256 * 1024;
#endif

// Unwinds the other cores after a failure.
struct Cancelled {};

thread_local Fibers* active_fibers = nullptr;

// Stacks are kept by the thread: an op is called many times.
thread_local std::vector<std::unique_ptr<char[]>> spare_stacks;

std::unique_ptr<char[]> take_stack() {
    if (spare_stacks.empty()) return std::unique_ptr<char[]>(new char[kStack]);
    auto stack = std::move(spare_stacks.back());
    spare_stacks.pop_back();
    return stack;
}

// The address sanitizer must know of every stack switch.
void switch_begins(void** shadow, const void* stack, size_t size) {
#if defined(DSV4_ASAN)
    __sanitizer_start_switch_fiber(shadow, stack, size);
#else
    (void)shadow, (void)stack, (void)size;
#endif
}

void switch_ends(void* shadow, const void** stack, size_t* size) {
#if defined(DSV4_ASAN)
    __sanitizer_finish_switch_fiber(shadow, stack, size);
#else
    (void)shadow, (void)stack, (void)size;
#endif
}

}  // namespace

struct Fibers::Fiber {
    Core* core = nullptr;
    State state = State::READY;
    bool started = false;
    ucontext_t context;
    void* shadow = nullptr;
    std::unique_ptr<char[]> stack;
};

Fibers* Fibers::active() { return active_fibers; }

Fibers::Fibers(const char* kernel, std::vector<Core>& cores, uint64_t seed)
    : kernel_(kernel), cores_(cores), random_(seed * 2 + 1) {
    for (Core& core : cores_) {
        fibers_.push_back(std::make_unique<Fiber>());
        fibers_.back()->core = &core;
    }
}

Fibers::~Fibers() {
    for (auto& fiber : fibers_) {
        if (fiber->stack) spare_stacks.push_back(std::move(fiber->stack));
    }
}

void Fibers::run(const std::function<void()>& body) {
    body_ = &body;
    active_fibers = this;
    while (true) {
        Fiber* next = pick();
        if (next == nullptr && !release_meeting()) break;
        if (next != nullptr) resume(*next);
    }
    active_fibers = nullptr;
    if (failure_) std::rethrow_exception(failure_);
}

void Fibers::resume(Fiber& fiber) {
    if (!fiber.started) {
        if (cancelled_) {
            fiber.state = State::DONE;
            return;
        }
        fiber.started = true;
        fiber.stack = take_stack();
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get();
        fiber.context.uc_stack.ss_size = kStack;
        fiber.context.uc_link = nullptr;
        const auto self = reinterpret_cast<uintptr_t>(this);
        makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Fibers::enter), 2, static_cast<unsigned>(self >> 32),
                    static_cast<unsigned>(self));
    }
    running_ = &fiber;
    Core* outer = current_core;
    current_core = fiber.core;
    switch_begins(&scheduler_shadow_, fiber.stack.get(), kStack);
    swapcontext(&scheduler_, &fiber.context);
    switch_ends(scheduler_shadow_, nullptr, nullptr);
    current_core = outer;
    running_ = nullptr;
}

void Fibers::enter(unsigned high, unsigned low) {
    auto* self = reinterpret_cast<Fibers*>(uintptr_t{high} << 32 | low);
    switch_ends(nullptr, &self->scheduler_stack_, &self->scheduler_stack_size_);
    self->body_of(*self->running_);
    self->leave(true);
}

void Fibers::body_of(Fiber& fiber) {
    try {
        (*body_)();
    } catch (const Cancelled&) {
    } catch (...) {
        if (!failure_) failure_ = std::current_exception();
        cancelled_ = true;
    }
    fiber.state = State::DONE;
}

void Fibers::leave(bool last) {
    Fiber& fiber = *running_;
    switch_begins(last ? nullptr : &fiber.shadow, scheduler_stack_, scheduler_stack_size_);
    swapcontext(&fiber.context, &scheduler_);
    switch_ends(fiber.shadow, &scheduler_stack_, &scheduler_stack_size_);
    if (cancelled_) throw Cancelled();
}

void Fibers::yield() {
    if (fibers_.size() > 1 && running_ != nullptr && (random() & 3) == 0) leave(false);
}

void Fibers::meet() {
    if (fibers_.size() == 1) return;
    running_->state = State::MEETING;
    leave(false);
}

Fibers::Fiber* Fibers::pick() {
    const size_t start = random() % fibers_.size();
    for (size_t i = 0; i < fibers_.size(); ++i) {
        Fiber& fiber = *fibers_[(start + i) % fibers_.size()];
        if (fiber.state == State::READY || (cancelled_ && fiber.state == State::MEETING)) return &fiber;
    }
    return nullptr;
}

// No core is ready: either all meet, or some wait for cores that have ended.
bool Fibers::release_meeting() {
    size_t meeting = 0;
    for (auto& fiber : fibers_) meeting += fiber->state == State::MEETING;
    if (meeting == 0) return false;
    if (meeting < fibers_.size()) {
        failure_ = std::make_exception_ptr(
            Hazard(text("kernel %s: deadlock: SyncAll reached by %zu of %zu cores", kernel_, meeting, fibers_.size())));
        cancelled_ = true;
        return true;
    }
    for (auto& fiber : fibers_) fiber->state = State::READY;
    return true;
}

uint64_t Fibers::random() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_;
}

}  // namespace dsv4::host
