// A block of threads, each a fiber on one core of the host.

#include <sys/mman.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>

#include "block.h"

alignas(1024) unsigned char emulated_shared[emulator::SHARED_ADDRESSES] = {};

// Saves this fiber's registers on its stack, and goes on with another's.
extern "C" void emulator_switch(void** from, void* to);
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch, @function
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulator_switch, .-emulator_switch
)");

namespace emulator {

const Launch* launched = nullptr;
int thread_index = -1;
unsigned long progress;
std::vector<Thread> threads;
std::vector<Warp> warps;
std::map<uint32_t, Mbarrier> mbarriers;
std::vector<Warpgroup> groups;

namespace {

constexpr size_t STACK = 128 << 10;
// Of a block; and of all that are resident at once.
constexpr int MOST_THREADS = WARP * MOST_WARPS;
constexpr size_t MOST_STACKS = 256 * 256;

unsigned block_index;
unsigned char* stacks = nullptr;
void* scheduler;
bool failed;
std::vector<NamedBarrier> barriers;
// In which its threads take turns.
std::vector<int> order;

// How far a thread of a block had come when it told others.
struct Release {
    unsigned thread;
    uint32_t syncs;
    Clock seen;
};
// Of a block that tells others: which of its releases a thread of this block has seen, and how far that thread had come.
struct Acquired {
    size_t release;
    Past by;
};
// By block, in order; by the block that they are of, in order; by address, the last release there of each block.
std::vector<std::vector<Release>> releases;
std::map<unsigned, std::vector<Acquired>> acquired;
std::map<uintptr_t, std::map<unsigned, size_t>> told;

// What a block has to itself while another one runs.
struct Resident {
    unsigned index;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::map<uint32_t, Mbarrier> mbarriers;
    std::vector<Warpgroup> groups;
    std::vector<NamedBarrier> barriers;
    std::vector<int> order;
    std::map<unsigned, std::vector<Acquired>> acquired;
    std::vector<unsigned char> memory;
    std::vector<SharedUnit> units;
    uint32_t number;
    bool ended;
};

void exchange(Resident& with) {
    std::swap(block_index, with.index);
    std::swap(threads, with.threads);
    std::swap(warps, with.warps);
    std::swap(mbarriers, with.mbarriers);
    std::swap(groups, with.groups);
    std::swap(barriers, with.barriers);
    std::swap(order, with.order);
    std::swap(acquired, with.acquired);
    with.memory.resize(SHARED_ADDRESSES);
    std::swap_ranges(with.memory.begin(), with.memory.begin() + (long)launched->dynamic_shared, emulated_shared);
    std::swap_ranges(with.memory.begin() + FIRST_STATIC, with.memory.end(), emulated_shared + FIRST_STATIC);
    exchange_shared(with.units, with.number);
}

void join(Clock& clock, const Clock& other) {
    for (size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

}  // namespace

void yield() { emulator_switch(&me().stack_pointer, scheduler); }

void wait_while(const unsigned* watched, unsigned value) {
    while (*watched == value) {
        me().watched = watched;
        me().value = value;
        yield();
    }
    me().watched = nullptr;
}

void release(Clock& clock) {
    join(clock, me().seen);
    Warp& warp = my_warp();
    clock[thread_index / WARP] = ++warp.clock;
}

void acquire(const Clock& clock) { join(me().seen, clock); }

const Slot* gather(const char* what, const void* data, size_t size, bool orders, void (*last)(const Slot*)) {
    Warp& warp = my_warp();
    if (warp.ended > 0) fail("%s: %d lanes of the warp have returned", what, warp.ended);
    const unsigned generation = warp.generation;
    Slot* slots = warp.slots[generation & 1];
    Clock& joined = warp.joined[generation & 1];
    if (warp.arrived == 0) {
        warp.what = what;
        joined = {};
    } else if (strcmp(warp.what, what) != 0) {
        fail("lanes of a warp part ways: some at %s, some at %s", warp.what, what);
    }
    if (size > 0) memcpy(slots[my_lane()].bytes, data, size);
    if (orders) join(joined, me().seen);
    ++progress;
    if (++warp.arrived == warp.lanes) {
        if (last) last(slots);
        warp.arrived = 0;
        ++warp.generation;
    } else {
        wait_while(&warp.generation, generation);
    }
    if (orders) {
        acquire(joined);
        ++me().syncs;
    }
    return slots;
}

namespace {

void thread_main() {
    launched->call(launched->arguments);
    Thread& thread = me();
    if (!thread.products.empty()) fail("a thread returns before it has waited for its wgmma");
    Warp& warp = my_warp();
    if (warp.arrived > 0) fail("lanes of a warp part ways: some return, some are at %s", warp.what);
    ++warp.ended;
    ++progress;
    thread.ended = true;
    for (;;) yield();
}

void prepare(int index, size_t first_stack) {
    unsigned char* top = stacks + STACK * (first_stack + (size_t)index + 1);
    // Six registers, and what the first switch returns to: aligned then as after a call.
    void** stack = reinterpret_cast<void**>(top) - 10;
    std::fill(stack, stack + 10, nullptr);
    stack[6] = reinterpret_cast<void*>(thread_main);
    threads[index].reset(stack, !launched->programmatic);
}

void begin_block(unsigned index, size_t first_stack) {
    block_index = index;
    const int count = (int)launched->threads;
    // What is not written in a block is NaN there.
    memset(emulated_shared + FIRST_STATIC, 0xff, *launched->static_shared);
    memset(emulated_shared, 0xff, launched->dynamic_shared);
    new_block();
    threads.resize(count);
    warps.resize((count + WARP - 1) / WARP);
    for (Warp& warp : warps) warp.reset();
    groups.assign((count + 127) / 128, Warpgroup{});
    barriers.assign(16, {});
    mbarriers.clear();
    acquired.clear();
    for (int i = 0; i < count; ++i) {
        prepare(i, first_stack);
        ++warps[i / WARP].lanes;
    }
    // Warps in a random order, lanes forwards or backwards.
    order.resize(count);
    std::vector<int> of_warps(warps.size());
    std::iota(of_warps.begin(), of_warps.end(), 0);
    for (size_t i = of_warps.size(); i > 1; --i) std::swap(of_warps[i - 1], of_warps[draw() % i]);
    const bool backwards = draw() % 2;
    size_t at = 0;
    for (int warp : of_warps)
        for (int lane = 0; lane < warps[warp].lanes; ++lane) order[at++] = WARP * warp + (backwards ? warps[warp].lanes - 1 - lane : lane);
}

void report_deadlock() {
    std::map<std::string, int> where;
    for (const Warp& warp : warps)
        if (warp.arrived > 0) where[warp.what] += warp.arrived;
    for (size_t number = 0; number < barriers.size(); ++number)
        if (barriers[number].arrived > 0) where["barrier " + std::to_string(number)] += barriers[number].arrived;
    fprintf(stderr, "emulated GPU: %s, block %u: threads wait for each other for ever", launched->name, block_index);
    for (const auto& [what, many] : where) fprintf(stderr, "; %d at %s", many, what.c_str());
    fprintf(stderr, "\n");
}

// Lets the block's threads take turns until they have ended, or none gets on.
enum class Came { ToAnEnd, NoFurther };
Came go_on() {
    for (bool running = true; running && !failed;) {
        running = false;
        const unsigned long before = progress;
        for (int index : order) {
            Thread& thread = threads[index];
            if (thread.ended) continue;
            running = true;
            if (thread.watched && *thread.watched == thread.value) continue;
            thread_index = index;
            emulator_switch(&scheduler, thread.stack_pointer);
            if (failed) break;
        }
        if (running && progress == before) {
            thread_index = -1;
            return Came::NoFurther;
        }
    }
    thread_index = -1;
    return Came::ToAnEnd;
}

void run_one_by_one(const std::vector<unsigned>& blocks) {
    for (unsigned block : blocks) {
        begin_block(block, 0);
        if (go_on() == Came::NoFurther && !failed) {
            report_deadlock();
            failed = true;
        }
        if (failed) return;
    }
}

// Blocks run in turns, each until it has to wait for another.
void run_together(const std::vector<unsigned>& blocks) {
    releases.assign(launched->blocks, {});
    told.clear();
    std::vector<Resident> residents(blocks.size());
    for (size_t i = 0; i < blocks.size(); ++i) {
        begin_block(blocks[i], i * launched->threads);
        exchange(residents[i]);
        residents[i].ended = false;
    }
    for (;;) {
        const unsigned long before = progress;
        Resident* left = nullptr;
        for (Resident& resident : residents) {
            if (resident.ended) continue;
            exchange(resident);
            resident.ended = go_on() == Came::ToAnEnd;
            exchange(resident);
            if (failed) return;
            if (!resident.ended) left = &resident;
        }
        if (!left) return;
        if (progress == before) {
            exchange(*left);
            report_deadlock();
            exchange(*left);
            failed = true;
            return;
        }
    }
}

}  // namespace

bool in_kernel() { return thread_index >= 0; }
uint16_t fences_of(unsigned thread) { return (uint16_t)threads[thread].fences; }
const Launch& current_launch() { return *launched; }

bool is_on_a_stack(uintptr_t address) {
    const uintptr_t start = reinterpret_cast<uintptr_t>(stacks);
    return address - start < STACK * MOST_STACKS;
}

Current current() {
    const Thread& thread = me();
    return {(unsigned)thread_index, thread_index / WARP, thread.syncs, thread.fences, &thread.seen, my_warp().clock};
}
Position position() { return {block_index, me().waited}; }

static bool is_before(const Past& past, unsigned thread, uint32_t syncs, const Clock& seen) {
    if (past.thread == thread) return true;
    if (past.thread / WARP == thread / WARP && past.syncs < syncs) return true;
    return seen[past.thread / WARP] > past.clock;
}

bool knows_of(unsigned block, const Past& written) {
    const std::vector<Acquired>& all = acquired[block];
    const Thread& now = me();
    return std::any_of(all.rbegin(), all.rend(), [&](const Acquired& it) {
        const Release& release = releases[block][it.release];
        return is_before(it.by, (unsigned)thread_index, now.syncs, now.seen) && is_before(written, release.thread, release.syncs, release.seen);
    });
}

void fail(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "emulated GPU: %s, block %u, thread %d: %s\n", launched->name, block_index, thread_index, text);
    failed = true;
    for (;;) yield();
}

bool run(const Launch& launch) {
    if (!stacks) {
        void* memory = mmap(nullptr, STACK * MOST_STACKS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return false;
        stacks = static_cast<unsigned char*>(memory);
    }
    const bool too_many = launch.cooperative && (size_t)launch.blocks * launch.threads > MOST_STACKS;
    if (launch.threads == 0 || launch.threads > MOST_THREADS || launch.blocks == 0 || too_many) {
        fprintf(stderr, "emulated GPU: %s: %u blocks of %u threads\n", launch.name, launch.blocks, launch.threads);
        return false;
    }
    launched = &launch;
    std::vector<unsigned> blocks(launch.blocks);
    std::iota(blocks.begin(), blocks.end(), 0u);
    for (size_t i = blocks.size(); i > 1; --i) std::swap(blocks[i - 1], blocks[draw() % i]);
    failed = false;
    if (launch.cooperative) run_together(blocks);
    else run_one_by_one(blocks);
    return !failed;
}

}  // namespace emulator

using namespace emulator;

struct Dim3 {
    unsigned x, y, z;
};

extern "C" {

Dim3 emulated_thread_index() { return {(unsigned)thread_index, 0, 0}; }
Dim3 emulated_block_index() { return {block_index, 0, 0}; }
Dim3 emulated_block_size() { return {launched->threads, 1, 1}; }
Dim3 emulated_grid_size() { return {launched->blocks, 1, 1}; }

void emulated_barrier(int number, int count, int waits) {
    if (number < 0 || number > 15 || (unsigned)count > launched->threads || (number > 0 && count % WARP != 0))
        fail("barrier %d of %d threads", number, count);
    NamedBarrier& barrier = barriers[number];
    if (barrier.arrived == 0) barrier.expected = count;
    if (barrier.expected != count) fail("barrier %d is waited for by %d and by %d threads", number, barrier.expected, count);
    release(barrier.clock);
    const unsigned generation = barrier.generation;
    ++progress;
    if (++barrier.arrived == barrier.expected) {
        barrier.released = barrier.clock;
        barrier.clock = {};
        barrier.last_sum = barrier.sum;
        barrier.sum = barrier.arrived = 0;
        ++barrier.generation;
    } else if (waits) {
        wait_while(&barrier.generation, generation);
    }
    if (waits) {
        acquire(barrier.released);
        ++me().syncs;
    }
}

int emulated_barrier_count(int predicate) {
    barriers[0].sum += predicate != 0;
    emulated_barrier(0, (int)launched->threads, 1);
    return barriers[0].last_sum;
}

void emulated_sync_warp() { gather("__syncwarp", nullptr, 0, true); }

uint32_t emulated_shuffle(uint32_t value, int from_lane) {
    const Slot* slots = gather("__shfl_sync", &value, sizeof value);
    memcpy(&value, slots[from_lane & (WARP - 1)].bytes, sizeof value);
    return value;
}

uint32_t emulated_reduce_or(uint32_t value) {
    const Slot* slots = gather("a vote", &value, sizeof value);
    for (int lane = 0; lane < my_warp().lanes; ++lane) {
        uint32_t other;
        memcpy(&other, slots[lane].bytes, sizeof other);
        value |= other;
    }
    return value;
}

void* emulated_static_shared(const void* tag, size_t size, size_t alignment) {
    const auto [place, is_new] = launched->statics->try_emplace(tag, 0);
    if (is_new) {
        place->second = (*launched->static_shared + alignment - 1) / alignment * alignment;
        *launched->static_shared = place->second + size;
        if (place->second + size > STATIC_SHARED) fail("more than %zu bytes of static shared memory", STATIC_SHARED);
        memset(emulated_shared + FIRST_STATIC + place->second, 0xff, size);
    }
    return emulated_shared + FIRST_STATIC + place->second;
}

void* emulated_dynamic_shared() { return emulated_shared; }

uint32_t emulated_shared_address(const void* p) {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(emulated_shared);
    if (offset > SHARED_ADDRESSES) fail("%p is no address in shared memory", p);
    return (uint32_t)offset;
}

void emulated_load(const void* address, int bytes) {
    if (reinterpret_cast<uintptr_t>(address) % bytes) fail("%d bytes at %p, which is not aligned", bytes, address);
    access(reinterpret_cast<uintptr_t>(address), bytes, Access::Read);
}

void emulated_pdl_wait() { me().waited = true; }

static void acquire_from(uintptr_t address) {
    for (const auto& [block, release] : told[address])
        if (block != block_index) acquired[block].push_back({release, {(unsigned)thread_index, me().syncs, my_warp().clock}});
}

uint32_t emulated_load_acquire(const uint32_t* from) {
    // Whoever polls lets the others go on.
    yield();
    atomic_access(reinterpret_cast<uintptr_t>(from));
    acquire_from(reinterpret_cast<uintptr_t>(from));
    return *from;
}

uint32_t emulated_add_release(uint32_t* to, uint32_t value, int acquires) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(to);
    atomic_access(address);
    if (launched->cooperative) {
        if (acquires) acquire_from(address);
        std::vector<Release>& all = releases[block_index];
        told[address][block_index] = all.size();
        all.push_back({(unsigned)thread_index, me().syncs, me().seen});
    }
    ++progress;
    const uint32_t before = *to;
    *to += value;
    return before;
}

void emulated_trap() { fail("a trap"); }
void emulated_proxy_fence() { ++me().fences; }

}  // extern "C"
