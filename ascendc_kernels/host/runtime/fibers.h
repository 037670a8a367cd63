// Blocks as fibers of the launching thread: concurrent, interleaved by a seed, deterministic.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "host_layer/core.h"

namespace dsv4::host {

class Fibers {
 public:
    Fibers(const char* kernel, std::vector<Core>& cores, uint64_t seed);
    ~Fibers();
    Fibers(const Fibers&) = delete;
    Fibers& operator=(const Fibers&) = delete;

    // Runs body on every core. An exception on one core ends the others; the first one is rethrown here.
    void run(const std::function<void()>& body);

    void yield();  // may give another core a turn
    void meet();   // returns when every core has called it

    static Fibers* active();

 private:
    enum class State : uint8_t { READY, MEETING, DONE };
    struct Fiber;

    static void enter(unsigned high, unsigned low);
    void body_of(Fiber& fiber);
    void resume(Fiber& fiber);
    void leave(bool last);
    Fiber* pick();
    bool release_meeting();
    uint64_t random();

    const char* kernel_;
    std::vector<Core>& cores_;
    std::vector<std::unique_ptr<Fiber>> fibers_;
    Fiber* running_ = nullptr;
    const std::function<void()>* body_ = nullptr;
    ucontext_t scheduler_;
    void* scheduler_shadow_ = nullptr;
    const void* scheduler_stack_ = nullptr;
    size_t scheduler_stack_size_ = 0;
    uint64_t random_;
    bool cancelled_ = false;
    std::exception_ptr failure_;
};

}  // namespace dsv4::host
