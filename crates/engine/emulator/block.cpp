// A block of threads, each a fiber on one core of the host.

#include <sys/mman.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>

#include "emulator.h"

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
namespace {

constexpr size_t STACK = 128 << 10;
constexpr int MOST_THREADS = WARP * MOST_WARPS;

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
    const struct TensorMap* map;
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

const Launch* launched = nullptr;
unsigned block_index;
int thread_index = -1;
unsigned char* stacks = nullptr;
void* scheduler;
bool failed;
unsigned long progress;
std::vector<Thread> threads;
std::vector<Warp> warps;
std::array<NamedBarrier, 16> barriers;
std::map<uint32_t, Mbarrier> mbarriers;
std::vector<Warpgroup> groups;

Thread& me() { return threads[thread_index]; }
Warp& my_warp() { return warps[thread_index / WARP]; }
int my_lane() { return thread_index % WARP; }

void yield() { emulator_switch(&me().stack_pointer, scheduler); }

// Lets others run until *watched is no longer what it is now.
void wait_while(const unsigned* watched, unsigned value) {
    while (*watched == value) {
        me().watched = watched;
        me().value = value;
        yield();
    }
    me().watched = nullptr;
}

void join(Clock& clock, const Clock& other) {
    for (size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

// What this thread and its warp have done so far is visible to whoever acquires `clock`.
void release(Clock& clock) {
    join(clock, me().seen);
    Warp& warp = my_warp();
    clock[thread_index / WARP] = ++warp.clock;
}

void acquire(const Clock& clock) { join(me().seen, clock); }

// All lanes of the warp meet here; each sees what every lane has brought. The last one to come may do something for all.
const Slot* gather(const char* what, const void* data, size_t size, bool orders = false, void (*last)(const Slot*) = nullptr) {
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

// The 128 threads of a warpgroup meet; the last runs `work` for all.
void gather_group(const std::function<void()>& work) {
    Warpgroup& group = groups[thread_index / 128];
    const unsigned generation = group.generation;
    ++progress;
    if (++group.arrived == 128) {
        work();
        group.arrived = 0;
        ++group.generation;
    } else {
        wait_while(&group.generation, generation);
    }
}

uint16_t bf16_at(uintptr_t address) {
    uint16_t bits;
    memcpy(&bits, reinterpret_cast<void*>(address), 2);
    return bits;
}

float bf16_to_float(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}

// What a lane brings to mma.sync: its registers of a and b, and where its accumulators are.
struct MmaOperands {
    uint32_t a[4], b[2];
    float* c[4];
};

// accumulators[16, 8] += a[16, K] · b[K, 8] for a warp, where four lanes hold a row of a, and four a column of b; a register has one
// value of K (TF32, of which the low bits are ignored) or two (bf16).
template <bool TF32>
void multiply(const Slot* slots) {
    constexpr int K = TF32 ? 8 : 16, HALVES = K / 8;
    MmaOperands lanes[WARP];
    for (int lane = 0; lane < WARP; ++lane) memcpy(&lanes[lane], slots[lane].bytes, sizeof lanes[lane]);
    const auto value = [](uint32_t word, int half) {
        if (!TF32) return bf16_to_float(uint16_t(word >> 16 * half));
        word &= ~0x1fffu;
        float value;
        memcpy(&value, &word, 4);
        return value;
    };
    // The order of K is the same on both sides, and otherwise does not matter.
    float x[16][K], y[K][8];
    for (int lane = 0; lane < WARP; ++lane)
        for (int half = 0; half < HALVES; ++half)
            for (int part = 0; part < 2; ++part) {
                const int k = (lane % 4 * 2 + part) * HALVES + half;
                x[lane / 4][k] = value(lanes[lane].a[2 * part], half);
                x[lane / 4 + 8][k] = value(lanes[lane].a[2 * part + 1], half);
                y[k][lane / 4] = value(lanes[lane].b[part], half);
            }
    for (int row = 0; row < 16; ++row) {
        double sums[8];
        const auto accumulator = [&](int column) -> float& { return *lanes[row % 8 * 4 + column / 2].c[row / 8 * 2 + column % 2]; };
        for (int column = 0; column < 8; ++column) sums[column] = accumulator(column);
        for (int k = 0; k < K; ++k)
            for (int column = 0; column < 8; ++column) sums[column] += (double)x[row][k] * y[k][column];
        for (int column = 0; column < 8; ++column) accumulator(column) = (float)sums[column];
    }
}

// The 128-byte swizzle: bits 4 to 6 of an address in shared memory are changed by bits 7 to 9.
uint32_t swizzled(uint32_t address) { return address ^ (address >> 3 & 0x70); }

uintptr_t in_shared(uint32_t address) { return reinterpret_cast<uintptr_t>(emulated_shared) + address; }

// A side of a wgmma as its descriptor says, `count` rows (or columns) by 16 of K.
std::vector<float> read_side(uint64_t descriptor, int count, bool count_is_contiguous) {
    const uint32_t start = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4, stride = (descriptor >> 32 & 0x3fff) << 4;
    if (descriptor >> 62 != 1) fail("a wgmma descriptor without the 128-byte swizzle");
    std::vector<float> side(count * 16);
    for (int n = 0; n < count; ++n)
        for (int k = 0; k < 16; ++k) {
            const uint32_t linear = count_is_contiguous ? start + n / 64 * leading + k / 8 * stride + k % 8 * 128 + n % 64 * 2
                                                        : start + n / 8 * stride + n % 8 * 128 + k * 2;
            const uintptr_t at = in_shared(swizzled(linear));
            access(at, 2, Access::Read, Proxy::Wgmma);
            side[n * 16 + k] = bf16_to_float(bf16_at(at));
        }
    return side;
}

// d[64, 128] = a · b, or + d, for the warpgroup that begins at thread `first`.
void compute(const std::vector<const Wgmma*>& of_threads) {
    const Wgmma& one = *of_threads[0];
    for (const Wgmma* other : of_threads)
        if (other->a != one.a || other->b != one.b || other->accumulate != one.accumulate)
            fail("wgmma: descriptors differ among the threads of a warpgroup");
    const std::vector<float> a = read_side(one.a, 64, false), b = read_side(one.b, 128, one.b_is_kn);
    for (int thread = 0; thread < 128; ++thread) {
        const int row = thread / WARP * 16 + thread % WARP / 4, column = thread % 4 * 2;
        for (int j = 0; j < 16; ++j)
            for (int half = 0; half < 2; ++half)
                for (int i = 0; i < 2; ++i) {
                    float& d = *of_threads[thread]->d[4 * j + 2 * half + i];
                    const float* x = &a[(row + 8 * half) * 16];
                    const float* y = &b[(8 * j + column + i) * 16];
                    double sum = one.accumulate ? d : 0.0;
                    for (int k = 0; k < 16; ++k) sum += (double)x[k] * y[k];
                    d = (float)sum;
                }
    }
}

// A matrix as cuTensorMapEncodeTiled describes it.
struct alignas(64) Tensor {
    uint64_t magic, address, columns, rows, row_bytes, box_columns, box_rows;
};
constexpr uint64_t TENSOR = 0x7465736e6f72;

void arrive_bytes(Mbarrier& barrier, long bytes) {
    barrier.bytes -= bytes;
    if (barrier.pending == 0 && barrier.bytes == 0) {
        barrier.pending = barrier.expected;
        ++barrier.phase;
        ++progress;
    }
}

void perform(const Box& box, Mbarrier& barrier) {
    const Tensor& map = *reinterpret_cast<const Tensor*>(box.map);
    for (uint64_t r = 0; r < map.box_rows; ++r)
        for (uint64_t c = 0; c < map.box_columns; ++c) {
            const uint64_t row = box.row + r, column = box.column + c;
            uint16_t value = 0;
            if (row < map.rows && column < map.columns) {
                const uintptr_t from = map.address + row * map.row_bytes + 2 * column;
                access(from, 2, Access::Read, Proxy::Engine);
                value = bf16_at(from);
            }
            const uintptr_t to = in_shared(swizzled(box.to + r * 128 + c * 2));
            access(to, 2, Access::Write, Proxy::Engine);
            memcpy(reinterpret_cast<void*>(to), &value, 2);
        }
    ++progress;
    barrier.clock[ENGINE] = ++engine_clock;
    arrive_bytes(barrier, (long)(map.box_rows * map.box_columns * 2));
}

void perform(const Copy& copy) {
    access(copy.to, 16, Access::Write);
    unsigned char bytes[16] = {};
    memcpy(bytes, copy.from, copy.bytes);
    memcpy(reinterpret_cast<void*>(copy.to), bytes, 16);
}

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

void prepare(int index) {
    unsigned char* top = stacks + STACK * (index + 1);
    // Six registers, and what the first switch returns to: aligned then as after a call.
    void** stack = reinterpret_cast<void**>(top) - 10;
    std::fill(stack, stack + 10, nullptr);
    stack[6] = reinterpret_cast<void*>(thread_main);
    threads[index].reset(stack, !launched->programmatic);
}

bool run_block() {
    const int count = (int)launched->threads;
    // What is not written in a block is NaN there.
    memset(emulated_shared + FIRST_STATIC, 0xff, *launched->static_shared);
    memset(emulated_shared, 0xff, launched->dynamic_shared);
    new_block();
    threads.resize(count);
    warps.resize((count + WARP - 1) / WARP);
    for (Warp& warp : warps) warp.reset();
    groups.assign((count + 127) / 128, Warpgroup{});
    barriers.fill({});
    mbarriers.clear();
    for (int i = 0; i < count; ++i) {
        prepare(i);
        ++warps[i / WARP].lanes;
    }
    // Warps in a random order, lanes forwards or backwards.
    std::vector<int> order(count);
    std::vector<int> of_warps(warps.size());
    std::iota(of_warps.begin(), of_warps.end(), 0);
    for (size_t i = of_warps.size(); i > 1; --i) std::swap(of_warps[i - 1], of_warps[draw() % i]);
    const bool backwards = draw() % 2;
    size_t at = 0;
    for (int warp : of_warps)
        for (int lane = 0; lane < warps[warp].lanes; ++lane) order[at++] = WARP * warp + (backwards ? warps[warp].lanes - 1 - lane : lane);
    failed = false;
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
        if (running && !failed && progress == before) {
            std::map<std::string, int> where;
            for (const Warp& warp : warps)
                if (warp.arrived > 0) where[warp.what] += warp.arrived;
            for (size_t number = 0; number < barriers.size(); ++number)
                if (barriers[number].arrived > 0) where["barrier " + std::to_string(number)] += barriers[number].arrived;
            fprintf(stderr, "emulated GPU: %s, block %u: threads wait for each other for ever", launched->name, block_index);
            for (const auto& [what, many] : where) fprintf(stderr, "; %d at %s", many, what.c_str());
            fprintf(stderr, "\n");
            failed = true;
        }
    }
    thread_index = -1;
    return !failed;
}

}  // namespace

bool in_kernel() { return thread_index >= 0; }
uint16_t fences_of(unsigned thread) { return (uint16_t)threads[thread].fences; }
const Launch& current_launch() { return *launched; }

bool is_on_a_stack(uintptr_t address) {
    const uintptr_t start = reinterpret_cast<uintptr_t>(stacks);
    return address - start < STACK * MOST_THREADS;
}

Current current() {
    const Thread& thread = me();
    return {(unsigned)thread_index, thread_index / WARP, thread.syncs, thread.fences, &thread.seen, my_warp().clock};
}
Position position() { return {block_index, me().waited}; }

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
        void* memory = mmap(nullptr, STACK * MOST_THREADS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return false;
        stacks = static_cast<unsigned char*>(memory);
    }
    if (launch.threads == 0 || launch.threads > MOST_THREADS || launch.blocks == 0) {
        fprintf(stderr, "emulated GPU: %s: %u blocks of %u threads\n", launch.name, launch.blocks, launch.threads);
        return false;
    }
    launched = &launch;
    std::vector<unsigned> order(launch.blocks);
    std::iota(order.begin(), order.end(), 0u);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw() % i]);
    for (unsigned block : order) {
        block_index = block;
        if (!run_block()) return false;
    }
    return true;
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

void emulated_mma(float** c, const uint32_t* a, const uint32_t* b, int tf32) {
    MmaOperands mine;
    memcpy(mine.a, a, sizeof mine.a);
    memcpy(mine.b, b, sizeof mine.b);
    memcpy(mine.c, c, sizeof mine.c);
    if (tf32) gather("mma of TF32", &mine, sizeof mine, false, multiply<true>);
    else gather("mma of bf16", &mine, sizeof mine, false, multiply<false>);
}

void emulated_ldmatrix(uint32_t** out, int matrices, int transposed, uint32_t address) {
    const Slot* slots = gather("ldmatrix", &address, sizeof address);
    if (my_lane() < 8 * matrices) {
        if (address % 16) fail("ldmatrix: a row at %u of shared memory, which is not aligned", address);
        access(in_shared(address), 16, Access::Read);
    }
    const int g = my_lane() / 4, c = my_lane() % 4;
    for (int i = 0; i < matrices; ++i) {
        const auto at = [&](int row, int column) -> uint32_t {
            uint32_t start;
            memcpy(&start, slots[8 * i + row].bytes, sizeof start);
            return bf16_at(in_shared(start) + 2 * column);
        };
        *out[i] = transposed ? at(2 * c, g) | at(2 * c + 1, g) << 16 : at(g, 2 * c) | at(g, 2 * c + 1) << 16;
    }
}

void emulated_copy_async(uint32_t to, const void* from, int bytes) {
    if (to % 16 || reinterpret_cast<uintptr_t>(from) % 16) fail("cp.async of 16 bytes that are not aligned");
    if (bytes > 0) access(reinterpret_cast<uintptr_t>(from), bytes, Access::Read);
    // It may arrive at any time from now on.
    access(in_shared(to), 16, Access::Write);
    expect(in_shared(to), 16);
    me().copies.push_back({in_shared(to), static_cast<const unsigned char*>(from), bytes, me().copy_group});
}

void emulated_copy_commit() { ++me().copy_group; }

void emulated_copy_wait(int in_flight) {
    Thread& thread = me();
    const int upto = thread.copy_group - in_flight;
    std::vector<Copy> later;
    for (const Copy& copy : thread.copies)
        if (copy.group < upto) perform(copy);
        else later.push_back(copy);
    thread.copies = std::move(later);
}

void emulated_pdl_wait() { me().waited = true; }
void emulated_proxy_fence() { ++me().fences; }

void emulated_mbarrier_init(uint32_t address, int arrivals) {
    access(in_shared(address), 8, Access::Write);
    mbarriers[address] = Mbarrier{arrivals, arrivals, 0, 0, {}, {}};
}

static Mbarrier& mbarrier_at(uint32_t address) {
    // Whoever uses a barrier must know that it has been initialised.
    access(in_shared(address), 8, Access::Read);
    const auto found = mbarriers.find(address);
    if (found == mbarriers.end()) fail("an mbarrier at %u that was not initialised", address);
    return found->second;
}

void emulated_mbarrier_arrive(uint32_t address, int bytes) {
    Mbarrier& barrier = mbarrier_at(address);
    release(barrier.clock);
    barrier.bytes += bytes;
    if (--barrier.pending < 0) fail("an mbarrier of %d arrivals has more", barrier.expected);
    ++progress;
    arrive_bytes(barrier, 0);
}

int emulated_mbarrier_try_wait(uint32_t address, int parity) {
    Mbarrier& barrier = mbarrier_at(address);
    if ((barrier.phase & 1) == (unsigned)parity) {
        // What is under way arrives when somebody waits for it.
        if (!barrier.boxes.empty()) {
            const size_t which = draw() % barrier.boxes.size();
            const Box box = barrier.boxes[which];
            barrier.boxes.erase(barrier.boxes.begin() + (long)which);
            perform(box, barrier);
        }
        if ((barrier.phase & 1) == (unsigned)parity) yield();
    }
    if ((barrier.phase & 1) == (unsigned)parity) return 0;
    acquire(barrier.clock);
    return 1;
}

void emulated_copy_box(uint32_t to, const void* map, uint32_t address, int column, int row) {
    const Tensor& tensor = *static_cast<const Tensor*>(map);
    if (tensor.magic != TENSOR) fail("a bulk copy by something that is no tensor map");
    if (to % 128) fail("a bulk copy to %u of shared memory, which is not aligned", to);
    if (!me().waited) access(tensor.address, 2, Access::Read);
    Mbarrier& barrier = mbarrier_at(address);
    for (uint64_t r = 0; r < tensor.box_rows; ++r)
        for (uint64_t c = 0; c < tensor.box_columns; c += 8) {
            const uintptr_t at = in_shared(swizzled((uint32_t)(to + r * 128 + c * 2)));
            access(at, 16, Access::Write);
            expect(at, 16);
        }
    barrier.boxes.push_back({to, static_cast<const struct emulator::TensorMap*>(map), column, row});
    ++progress;
}

void emulated_wgmma(float** d, uint64_t a, uint64_t b, int accumulate, int b_is_kn) {
    Wgmma product{{}, a, b, accumulate, b_is_kn, me().product_group};
    std::copy(d, d + 64, product.d);
    me().products.push_back(product);
}

void emulated_wgmma_fence() { gather("wgmma.fence", nullptr, 0); }
void emulated_wgmma_commit() { ++me().product_group; }

void emulated_wgmma_wait(int in_flight) {
    const int first = thread_index / 128 * 128;
    if (launched->threads < (unsigned)first + 128) fail("wgmma without a whole warpgroup");
    const int upto = me().product_group - in_flight;
    gather_group([&] {
        for (;;) {
            std::vector<const Wgmma*> of_threads;
            for (int i = first; i < first + 128; ++i)
                if (!threads[i].products.empty() && threads[i].products[0].group < upto) of_threads.push_back(&threads[i].products[0]);
            if (of_threads.empty()) break;
            if (of_threads.size() < 128) fail("wgmma: the threads of a warpgroup have issued different numbers");
            compute(of_threads);
            for (int i = first; i < first + 128; ++i) threads[i].products.erase(threads[i].products.begin());
        }
    });
}

// The driver's part: a map of a matrix of 16-bit values in boxes of 128 bytes a row.
int cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* address, const uint64_t* sizes, const uint64_t* strides,
                           const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int, int fill) {
    const bool offered = type == 9 && rank == 2 && steps[0] == 1 && steps[1] == 1 && interleave == 0 && swizzle == 3 && fill == 0;
    const uint64_t start = reinterpret_cast<uint64_t>(address);
    const bool sound = start % 16 == 0 && strides[0] % 16 == 0 && box[0] * 2 <= 128 && box[1] <= 256 && strides[0] >= 2 * sizes[0];
    if (!offered || !sound || !is_memory(start, strides[0] * (sizes[1] - 1) + 2 * sizes[0])) return 1;
    const Tensor tensor{TENSOR, start, sizes[0], sizes[1], strides[0], box[0], box[1]};
    memset(map, 0, 128);
    memcpy(map, &tensor, sizeof tensor);
    return 0;
}

}  // extern "C"
