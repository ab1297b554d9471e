// A CUDA device in software: the parts of the driver, NVRTC and cuBLASLt that iclab uses, for machines without a GPU.
//
//     driver.cpp    the driver: memory, streams, events, graphs, launches
//     compiler.cpp  NVRTC: CUDA C++ is translated to C++ and compiled by the host's compiler
//     blas.cpp      cuBLASLt: matmuls with their epilogues, as plain loops
//     kernel.h      what CUDA C++ finds in place of CUDA: types, intrinsics, PTX instructions
//     block.cpp     a block of threads: fibers, warps, barriers
//     copies.cpp    asynchronous copies, by threads and by the bulk copy engine
//     tensor_cores.cpp  matmuls of a warp and of four
//     watch.cpp     every access to memory, as it happens: bounds, alignment, races, what has not arrived
//
// Nothing is emulated for speed. What the hardware may do late is done as late as it may be, and what it may do in any order is
// done in a random one, so that a kernel that waits for too little computes something else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace emulator __attribute__((visibility("hidden"))) {

constexpr int WARP = 32, MOST_WARPS = 32;
// Shared memory of a block: how much of it there is, and of static variables. Their addresses follow those of what the launch asks
// for, which wgmma's descriptors, of 18 bits, must reach.
constexpr size_t ALL_SHARED = 227 << 10, STATIC_SHARED = 48 << 10, FIRST_STATIC = ALL_SHARED, SHARED_ADDRESSES = ALL_SHARED + STATIC_SHARED;

// ---- block.cpp

// A kernel with its arguments, on one grid.
struct Launch {
    const char* name;
    void (*call)(void** arguments);
    void** arguments;
    unsigned blocks, threads;
    size_t dynamic_shared;
    // Where the kernel's static variables of shared memory lie, by their tags, and where the last of them ends.
    std::map<const void*, size_t>* statics;
    size_t* static_shared;
    // Of all work on the device, and where the stream's chain of programmatic dependent launches began.
    uint32_t number, chain_start;
    bool programmatic;
    // Whether all blocks are resident at once, so that they may wait for each other.
    bool cooperative;
};

// Runs it; false if something was wrong, which has been reported.
bool run(const Launch& launch);

// How far a thread knows each warp, and the asynchronous engine, to have come.
constexpr int ENGINE = MOST_WARPS;
using Clock = std::array<uint32_t, MOST_WARPS + 1>;

// The thread that runs now.
struct Current {
    unsigned thread;
    int warp;
    // Barriers and __syncwarp that it has passed; proxy fences that it has issued.
    uint32_t syncs, fences;
    const Clock* seen;
    uint32_t warp_clock;
};
Current current();
// How far a thread had come when it wrote something.
struct Past {
    unsigned thread;
    uint32_t syncs, clock;
};
// Whether the thread that runs now knows, by what blocks have told each other, of what another block of its launch has written.
bool knows_of(unsigned block, const Past& written);
// Its block, and whether everything before this launch is known to have ended.
struct Position {
    unsigned block;
    bool waited;
};
Position position();
bool in_kernel();
// Proxy fences that a thread of this block has issued.
uint16_t fences_of(unsigned thread);
const Launch& current_launch();

// Reports what is wrong with the kernel that runs, and abandons the launch.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// ---- watch.cpp

enum class Access { Read, Write };
// Who reads or writes: a thread by itself, a wgmma for its warp, or the engine of bulk copies.
enum class Proxy { Generic, Wgmma, Engine };

bool is_on_a_stack(uintptr_t address);
// Nothing is written in shared memory yet.
void new_block();
void access(uintptr_t address, size_t size, Access access, Proxy proxy = Proxy::Generic);
// An atomic operation on four bytes: there, and aligned.
void atomic_access(uintptr_t address);
// Who touched a unit of shared memory, and how far it had come.
struct Stamp {
    uint16_t thread;
    uint16_t fences;
    uint32_t syncs, clock;
};
struct SharedUnit {
    uint32_t block;
    bool written, arriving, read, read_by_another, async;
    Stamp writer, reader, other_reader;
};
// What is known of the shared memory of the block that runs, in exchange for that of another.
void exchange_shared(std::vector<SharedUnit>& of_another, uint32_t& number);
// Something is on its way there: what lies there now must not be read.
void expect(uintptr_t address, size_t size);
// How far the engine of bulk copies has come.
extern uint32_t engine_clock;

void add_memory(uintptr_t start, size_t size);
bool remove_memory(uintptr_t start);
// Whether so many bytes lie in one allocation; and none of them in a guard.
bool is_allocated(uintptr_t start, size_t size);
bool is_memory(uintptr_t start, size_t size);
// Bytes that no kernel may touch.
void forbid(uintptr_t start, size_t size);
// Work other than kernels has written there.
void written(uintptr_t start, size_t size, uint32_t launch);
// A program's own memory, of which kernels read constants.
void add_image(uintptr_t start, size_t size);

// ---- driver.cpp

// Some work, given its number and where its stream's chain of programmatic dependent launches began; false if it failed.
using Work = std::function<bool(uint32_t number, uint32_t chain_start)>;
// Does it now, or adds it to the graph that is captured; `programmatic` work may begin before what is ahead of it has ended.
int enqueue(void* stream, bool programmatic, Work work);

// The next random number, by ICLAB_EMULATOR_SEED.
uint64_t draw();

}  // namespace emulator

extern "C" unsigned char emulated_shared[];
