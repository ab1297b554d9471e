// What a block of threads consists of, for the parts that act on it.
#pragma once

#include <cstring>
#include <map>

#include "emulator.h"

namespace emulator __attribute__((visibility("hidden"))) {

// A matrix as cuTensorMapEncodeTiled describes it.
struct alignas(64) Tensor {
    uint64_t magic, address, columns, rows, row_bytes, box_columns, box_rows;
};
constexpr uint64_t TENSOR = 0x7465736e6f72;

// Sixteen bytes on their way to shared memory, begun by one thread.
struct Copy {
    uintptr_t to;
    const unsigned char* from;
    int bytes, group;
};

// A wgmma that has been issued: its accumulators are in the thread's registers.
struct Wgmma {
    float* d[64];
    uint64_t a, b;
    int accumulate, b_is_kn, group;
};

struct Thread {
    void* stack_pointer;
    bool ended;
    // Blocked while *watched == value.
    const unsigned* watched;
    unsigned value;
    uint32_t syncs, fences;
    bool waited;
    Clock seen;
    std::vector<Copy> copies;
    int copy_group;
    std::vector<Wgmma> products;
    int product_group;

    void reset(void* stack, bool has_waited) {
        stack_pointer = stack;
        ended = false;
        watched = nullptr;
        syncs = fences = 0;
        waited = has_waited;
        seen = {};
        copies.clear();
        products.clear();
        copy_group = product_group = 0;
    }
};

struct Slot {
    alignas(8) unsigned char bytes[64];
};

// What its lanes do together: each brings something, and sees what the others brought.
struct Warp {
    int lanes, arrived, ended;
    unsigned generation;
    const char* what;
    Slot slots[2][WARP];
    Clock joined[2];
    uint32_t clock;

    void reset() {
        lanes = arrived = ended = 0;
        generation = clock = 0;
    }
};

struct NamedBarrier {
    int arrived = 0, expected = 0, sum = 0, last_sum = 0;
    unsigned generation = 0;
    Clock clock{}, released{};
};

// A box of a matrix on its way to shared memory.
struct Box {
    uint32_t to;
    const Tensor* map;
    int column, row;
};

struct Mbarrier {
    int expected, pending;
    long bytes;
    unsigned phase;
    Clock clock{};
    std::vector<Box> boxes;
};

// What four warps do together.
struct Warpgroup {
    int arrived = 0;
    unsigned generation = 0;
};

extern const Launch* launched;
extern int thread_index;
// Counts whatever lets somebody go on: without any, threads wait for each other for ever.
extern unsigned long progress;
extern std::vector<Thread> threads;
extern std::vector<Warp> warps;
extern std::map<uint32_t, Mbarrier> mbarriers;
extern std::vector<Warpgroup> groups;

inline Thread& me() { return threads[thread_index]; }
inline Warp& my_warp() { return warps[thread_index / WARP]; }
inline int my_lane() { return thread_index % WARP; }

// Lets others run.
void yield();
// Lets others run until *watched is no longer what it is now.
void wait_while(const unsigned* watched, unsigned value);

// What this thread and its warp have done so far is visible to whoever acquires `clock`.
void release(Clock& clock);
void acquire(const Clock& clock);

// All lanes of the warp meet here; each sees what every lane has brought. The last one to come may do something for all. If that orders
// what lanes do to memory, `orders` says so.
const Slot* gather(const char* what, const void* data, size_t size, bool orders = false, void (*last)(const Slot*) = nullptr);

inline uintptr_t in_shared(uint32_t address) { return reinterpret_cast<uintptr_t>(emulated_shared) + address; }

// The 128-byte swizzle: bits 4 to 6 of an address in shared memory are changed by bits 7 to 9.
inline uint32_t swizzled(uint32_t address) { return address ^ (address >> 3 & 0x70); }

inline uint16_t bf16_at(uintptr_t address) {
    uint16_t bits;
    memcpy(&bits, reinterpret_cast<void*>(address), 2);
    return bits;
}

}  // namespace emulator
