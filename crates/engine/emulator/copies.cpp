// Asynchronous copies to shared memory, of sixteen bytes and of boxes of a matrix, and the barriers that say when they have arrived.

#include "block.h"

namespace emulator {
namespace {

void arrive_bytes(Mbarrier& barrier, long bytes) {
    barrier.bytes -= bytes;
    if (barrier.pending == 0 && barrier.bytes == 0) {
        barrier.pending = barrier.expected;
        ++barrier.phase;
        ++progress;
    }
}

void perform(const Box& box, Mbarrier& barrier) {
    const Tensor& map = *box.map;
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

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" {

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
    barrier.boxes.push_back({to, &tensor, column, row});
    ++progress;
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
