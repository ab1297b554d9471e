// Every access of a kernel to memory: whether there is any, whether what was sent there has arrived, and whether it is ordered with what
// other threads do at the same place.
//
// Kernels are compiled with -fsanitize=thread, which calls the functions at the end before every access.

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "emulator.h"

namespace emulator {

uint32_t engine_clock = 0;

namespace {

// Memory is watched in units of two bytes, a bf16.
constexpr size_t UNIT = 2;

struct GlobalUnit {
    uint32_t write_launch, write_block, read_launch, read_block;
};
constexpr uint32_t SEVERAL = ~0u;
// In place of a launch: a guard, which no kernel may touch.
constexpr uint32_t FORBIDDEN = ~0u;

struct Allocation {
    uintptr_t start;
    size_t size;
    GlobalUnit* units;
    // Of units that a cooperative launch has written: how far the thread had come.
    Past* pasts;
};

constexpr size_t SHARED_UNITS = SHARED_ADDRESSES / UNIT + 1;
std::vector<SharedUnit> shared(SHARED_UNITS);
uint32_t block_number = 0, blocks_begun = 0;
std::map<uintptr_t, Allocation> allocations;
// Those that were touched last, by page: each has pages of its own.
constexpr uintptr_t PAGE = 4096;
std::array<const Allocation*, 1024> touched{};
std::map<uintptr_t, size_t> images;

const char* name(Access access) { return access == Access::Write ? "written" : "read"; }

// Whether what `stamp` says happened before what the current thread does now.
bool is_before(const Stamp& stamp, const Current& now) {
    if (stamp.thread == now.thread) return true;
    if (stamp.thread / WARP == now.warp && stamp.syncs < now.syncs) return true;
    return (*now.seen)[stamp.thread / WARP] > stamp.clock;
}

void shared_access(size_t offset, size_t size, Access kind, Proxy proxy) {
    const size_t dynamic = current_launch().dynamic_shared, of_static = *current_launch().static_shared;
    if (offset + size > dynamic && (offset < FIRST_STATIC || offset + size > FIRST_STATIC + of_static))
        fail("%zu bytes are %s at %zu of shared memory, where %zu are dynamic and %zu static from %zu on", size, name(kind), offset, dynamic,
             of_static, FIRST_STATIC);
    const Current now = current();
    const bool engine = proxy == Proxy::Engine;
    const Stamp stamp = engine ? Stamp{ENGINE * WARP, 0, 0, engine_clock}
                               : Stamp{(uint16_t)now.thread, (uint16_t)now.fences, now.syncs, now.warp_clock};
    for (size_t at = offset / UNIT; at < (offset + size + UNIT - 1) / UNIT; ++at) {
        SharedUnit& unit = shared[at];
        if (unit.block != block_number) unit = SharedUnit{block_number, false, false, false, false, false, {}, {}, {}};
        // What was never written is NaN, and may be read where nothing comes of it.
        if (kind == Access::Read && unit.arriving)
            fail("shared memory is read at %zu, where an asynchronous copy may not have arrived", at * UNIT);
        if (unit.written && !is_before(unit.writer, now))
            fail("shared memory at %zu is %s, and thread %u has written it without a barrier between", at * UNIT, name(kind),
                 unit.writer.thread);
        const bool other_proxy = unit.written && proxy != Proxy::Generic && !unit.async;
        if (kind == Access::Read && other_proxy) {
            // The writer has to issue a fence before its barrier.
            const uint16_t fences = unit.writer.fences;
            if (fences_of(unit.writer.thread) == fences)
                fail("shared memory at %zu is read by the asynchronous proxy; thread %u has written it without a proxy fence", at * UNIT,
                     unit.writer.thread);
        }
        if (kind == Access::Write) {
            for (const auto& [is_there, reader] : {std::pair(unit.read, unit.reader), std::pair(unit.read_by_another, unit.other_reader)})
                if (is_there && !is_before(reader, now))
                    fail("shared memory at %zu is written, and thread %u may still read it", at * UNIT, reader.thread);
            unit.written = true;
            unit.arriving = false;
            unit.async = engine;
            unit.writer = stamp;
            unit.read = unit.read_by_another = false;
        } else if (!unit.read || unit.reader.thread == stamp.thread) {
            unit.read = true;
            unit.reader = stamp;
        } else {
            unit.read_by_another = true;
            unit.other_reader = stamp;
        }
    }
}

const Allocation* find(uintptr_t address) {
    const Allocation*& known = touched[address / PAGE % touched.size()];
    if (known && address - known->start < known->size) return known;
    const auto next = allocations.upper_bound(address);
    if (next == allocations.begin()) return nullptr;
    const Allocation& found = std::prev(next)->second;
    if (address - found.start >= found.size) return nullptr;
    return known = &found;
}

// The units that bytes of an allocation are in, from the first to behind the last.
struct Units {
    GlobalUnit *first, *end;
};

Units units(const Allocation& memory, uintptr_t start, size_t size) {
    const size_t from = start - memory.start;
    return {memory.units + from / UNIT, memory.units + (from + size + UNIT - 1) / UNIT};
}

bool lies_in(const std::map<uintptr_t, size_t>& ranges, uintptr_t address, size_t size) {
    auto next = ranges.lower_bound(address + size);
    if (next == ranges.begin()) return false;
    const auto& [start, length] = *std::prev(next);
    return start + length > address;
}

[[noreturn]] void fail_outside(uintptr_t address, size_t size, Access kind) {
    const auto next = allocations.upper_bound(address);
    if (next != allocations.begin()) {
        const Allocation& before = std::prev(next)->second;
        if (address - before.start < before.size + PAGE)
            fail("%zu bytes are %s %zu bytes from the start of an allocation of %zu", size, name(kind), address - before.start, before.size);
    }
    if (next != allocations.end() && next->first - address <= PAGE)
        fail("%zu bytes are %s %zu bytes before an allocation of %zu", size, name(kind), next->first - address, next->second.size);
    fail("%zu bytes are %s at %#lx, where no memory is", size, name(kind), address);
}

void global_access(uintptr_t address, size_t size, Access kind) {
    const Allocation* memory = find(address);
    if (!memory && kind == Access::Read && lies_in(images, address, size)) return;  // constants of the program
    if (!memory || address + size > memory->start + memory->size) fail_outside(address, size, kind);
    const Position at = position();
    const Launch& launch = current_launch();
    const auto in_chain = [&](uint32_t other) { return !at.waited && other >= launch.chain_start && other < launch.number && other > 0; };
    const Current thread = current();
    const Past now{thread.thread, thread.syncs, thread.warp_clock};
    const Units all = units(*memory, address, size);
    for (GlobalUnit* unit = all.first; unit < all.end; ++unit) {
        if (unit->write_launch == FORBIDDEN)
            fail("%zu bytes are %s %zu bytes from the start of an allocation of %zu, in a guard", size, name(kind), address - memory->start,
                 memory->size);
        if (in_chain(unit->write_launch))
            fail("memory is %s before griddepcontrol.wait, and launch %u of this chain may still write it (this is %u)", name(kind),
                 unit->write_launch, launch.number);
        Past& past = memory->pasts[unit - memory->units];
        if (unit->write_launch == launch.number && unit->write_block != at.block && !(launch.cooperative && knows_of(unit->write_block, past)))
            fail("memory is %s, and block %u of the same launch has written it", name(kind), unit->write_block);
        if (kind == Access::Write) {
            if (in_chain(unit->read_launch))
                fail("memory is written before griddepcontrol.wait, and launch %u of this chain may still read it", unit->read_launch);
            if (unit->read_launch == launch.number && unit->read_block != at.block)
                fail("memory is written, and %s of the same launch has read it",
                     unit->read_block == SEVERAL ? "more than one block" : "another block");
            unit->write_launch = launch.number;
            unit->write_block = at.block;
            if (launch.cooperative) past = now;
        } else if (unit->read_launch != launch.number) {
            unit->read_launch = launch.number;
            unit->read_block = at.block;
        } else if (unit->read_block != at.block) {
            unit->read_block = SEVERAL;
        }
    }
}

}  // namespace

void new_block() { block_number = ++blocks_begun; }

void exchange_shared(std::vector<SharedUnit>& of_another, uint32_t& number) {
    if (of_another.empty()) of_another.resize(SHARED_UNITS);
    std::swap(shared, of_another);
    std::swap(block_number, number);
}

void atomic_access(uintptr_t address) {
    if (address % 4) fail("an atomic operation at %#lx, which is not aligned", address);
    if (!is_memory(address, 4)) fail_outside(address, 4, Access::Write);
}

void access(uintptr_t address, size_t size, Access kind, Proxy proxy) {
    if (is_on_a_stack(address)) return;
    const uintptr_t offset = address - reinterpret_cast<uintptr_t>(emulated_shared);
    if (offset < SHARED_ADDRESSES) shared_access(offset, size, kind, proxy);
    else global_access(address, size, kind);
}

void expect(uintptr_t address, size_t size) {
    const uintptr_t offset = address - reinterpret_cast<uintptr_t>(emulated_shared);
    memset(reinterpret_cast<void*>(address), 0xff, size);
    for (size_t at = offset / UNIT; at < (offset + size) / UNIT; ++at) {
        shared[at].written = false;
        shared[at].arriving = true;
    }
}

// Zeros, of which those that are never touched cost nothing.
static void* pages_of_nothing(size_t bytes) {
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return pages == MAP_FAILED ? nullptr : pages;
}

void add_memory(uintptr_t start, size_t size) {
    const size_t bytes = (size / UNIT + 2) * sizeof(GlobalUnit);
    allocations[start] = {start, size, static_cast<GlobalUnit*>(pages_of_nothing(bytes)),
                          static_cast<Past*>(pages_of_nothing((size / UNIT + 2) * sizeof(Past)))};
}

bool remove_memory(uintptr_t start) {
    const auto found = allocations.find(start);
    if (found == allocations.end()) return false;
    const Allocation& memory = found->second;
    munmap(memory.units, (memory.size / UNIT + 2) * sizeof(GlobalUnit));
    munmap(memory.pasts, (memory.size / UNIT + 2) * sizeof(Past));
    touched = {};
    allocations.erase(found);
    return true;
}

bool is_allocated(uintptr_t start, size_t size) {
    const Allocation* memory = find(start);
    return memory && start + size <= memory->start + memory->size;
}

bool is_memory(uintptr_t start, size_t size) {
    if (!is_allocated(start, size)) return false;
    const Units all = units(*find(start), start, size);
    return std::none_of(all.first, all.end, [](const GlobalUnit& unit) { return unit.write_launch == FORBIDDEN; });
}

static void set(uintptr_t start, size_t size, GlobalUnit to) {
    const Allocation* memory = find(start);
    if (!memory || size == 0) return;
    const Units all = units(*memory, start, size);
    std::fill(all.first, all.end, to);
}

void forbid(uintptr_t start, size_t size) { set(start, size, {FORBIDDEN, 0, 0, 0}); }
void written(uintptr_t start, size_t size, uint32_t launch) { set(start, size, {launch, 0, 0, 0}); }

void add_image(uintptr_t start, size_t size) { images[start] = size; }

}  // namespace emulator

using namespace emulator;

static inline void check(void* address, size_t size, Access kind, bool aligned) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(address);
    if (!in_kernel() || is_on_a_stack(at)) return;
    if (aligned && at % size) fail("%zu bytes are %s at %#lx, which is not aligned", size, name(kind), at);
    access(at, size, kind);
}

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
#define ACCESSES(bytes)                                                                        \
    void __tsan_read##bytes(void* at) { check(at, bytes, Access::Read, true); }                \
    void __tsan_write##bytes(void* at) { check(at, bytes, Access::Write, true); }              \
    void __tsan_unaligned_read##bytes(void* at) { check(at, bytes, Access::Read, false); }     \
    void __tsan_unaligned_write##bytes(void* at) { check(at, bytes, Access::Write, false); }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
void __tsan_read_range(void* at, size_t size) { check(at, size, Access::Read, false); }
void __tsan_write_range(void* at, size_t size) { check(at, size, Access::Write, false); }
// Copies of structures that the compiler leaves to the library.
void* __wrap_memcpy(void* to, const void* from, size_t size) {
    if (size > 0) {
        check(const_cast<void*>(from), size, Access::Read, false);
        check(to, size, Access::Write, false);
    }
    return memmove(to, from, size);
}
}
