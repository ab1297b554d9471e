// The driver: one device, memory, streams, events, graphs and launches. Work is done when it is enqueued, and fails then; unlike on
// a device, a failure does not stick. A graph does its work in any order that its streams and events allow, another one each time.

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>

#include "emulator.h"

using namespace emulator;

namespace {

constexpr int SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_IMAGE = 200, INVALID_HANDLE = 400, NOT_FOUND = 500,
              LAUNCH_FAILED = 719, LAUNCH_TOO_LARGE = 720, CAPTURE_WRONG = 901;

std::recursive_mutex device;
#define ALONE std::lock_guard<std::recursive_mutex> alone(device)

struct Node {
    Work work;
    bool programmatic;
    struct Stream* stream;
    std::set<size_t> after;
};

struct Graph {
    std::vector<Node> nodes;
};

struct Event {
    std::chrono::steady_clock::time_point time;
    std::set<size_t> after;
    struct Capture* capture = nullptr;
};

// A capture: streams join it by waiting for events in it.
struct Capture {
    Graph graph;
    struct Stream* origin;
    std::map<struct Stream*, std::set<size_t>> last;
};

struct Stream {
    Capture* capture = nullptr;
    uint32_t chain_start = 0;
};

struct Module {
    void* handle;
    std::map<std::string, std::unique_ptr<struct Function>> functions;
};

struct Function {
    std::string name;
    void (*call)(void**);
    std::vector<size_t> sizes;
    int dynamic_limit = (int)STATIC_SHARED;
    std::map<const void*, size_t> statics;
    size_t static_shared = 0;
};

uint32_t launches = 0;
size_t bytes_used = 0;
std::map<uintptr_t, size_t> sizes;
constexpr size_t ALL_MEMORY = size_t(8) << 30;

int number_from(const char* name, int otherwise) {
    const char* value = getenv(name);
    return value ? atoi(value) : otherwise;
}

// Compute capability times ten.
int capability() {
    static const int value = number_from("ICLAB_EMULATED_CAPABILITY", 90);
    return value;
}

// Few: many kernels have as many blocks for each, and here they run one after the other.
int multiprocessors() { return number_from("ICLAB_EMULATED_MULTIPROCESSORS", 16); }

int perform(const Node& node) {
    const uint32_t number = ++launches;
    if (!node.programmatic) node.stream->chain_start = number;
    return node.work(number, node.stream->chain_start) ? SUCCESS : LAUNCH_FAILED;
}

// Memory is written by the host, in order.
int host_writes(Stream* stream, uintptr_t to, size_t size) {
    if (stream && stream->capture) return CAPTURE_WRONG;
    if (size > 0 && !is_allocated(to, size)) return INVALID_VALUE;
    const uint32_t number = ++launches;
    if (stream) stream->chain_start = number;
    written(to, size, number);
    return SUCCESS;
}

}  // namespace

namespace emulator {

uint64_t draw() {
    static uint64_t state = (uint64_t)number_from("ICLAB_EMULATOR_SEED", 1);
    // SplitMix64
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

int enqueue(void* on, bool programmatic, Work work) {
    ALONE;
    Stream* stream = static_cast<Stream*>(on);
    Node node{std::move(work), programmatic, stream, {}};
    if (!stream->capture) return perform(node);
    Capture& capture = *stream->capture;
    node.after = capture.last[stream];
    capture.graph.nodes.push_back(std::move(node));
    capture.last[stream] = {capture.graph.nodes.size() - 1};
    return SUCCESS;
}

}  // namespace emulator

extern "C" {

int cuInit(unsigned) { return SUCCESS; }
int cuDriverGetVersion(int* version) {
    *version = 13000;
    return SUCCESS;
}
int cuGetErrorName(int, const char** name) {
    *name = "EMULATED";
    return SUCCESS;
}
int cuGetErrorString(int error, const char** text) {
    *text = error == LAUNCH_FAILED ? "a launch failed; standard error says why" : "a call that the emulated driver refuses";
    return SUCCESS;
}
int cuDeviceGetCount(int* count) {
    *count = 1;
    return SUCCESS;
}
int cuDeviceGet(int* of, int ordinal) {
    *of = ordinal;
    return ordinal == 0 ? SUCCESS : INVALID_VALUE;
}
int cuDeviceGetName(char* name, int size, int) {
    snprintf(name, (size_t)size, "Emulated GPU %d", capability());
    return SUCCESS;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
    *bytes = ALL_MEMORY;
    return SUCCESS;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
    switch (attribute) {
        case 16: *value = multiprocessors(); break;
        case 75: *value = capability() / 10; break;        // compute capability
        case 76: *value = capability() % 10; break;
        case 97: *value = (int)ALL_SHARED; break;          // shared memory of a block, opted in
        default: *value = 0;
    }
    return SUCCESS;
}

static int the_context;
int cuDevicePrimaryCtxRetain(void** context, int) {
    *context = &the_context;
    return SUCCESS;
}
int cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
int cuCtxSetCurrent(void*) { return SUCCESS; }
int cuCtxGetCurrent(void** context) {
    *context = &the_context;
    return SUCCESS;
}
int cuCtxSynchronize() {
    ALONE;
    return SUCCESS;
}

int cuMemGetInfo_v2(size_t* free, size_t* total) {
    ALONE;
    *free = ALL_MEMORY - bytes_used;
    *total = ALL_MEMORY;
    return SUCCESS;
}
int cuMemAlloc_v2(uintptr_t* at, size_t size) {
    ALONE;
    if (size == 0) return INVALID_VALUE;
    if (bytes_used + size > ALL_MEMORY) return OUT_OF_MEMORY;
    // Pages of nothing on both sides of every allocation; it ends where a page does, as far as 256 bytes allow.
    const size_t page = 4096, whole = (size + page - 1) / page * page;
    void* memory = mmap(nullptr, whole + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return OUT_OF_MEMORY;
    const uintptr_t start = reinterpret_cast<uintptr_t>(memory) + page;
    mprotect(reinterpret_cast<void*>(start), whole, PROT_READ | PROT_WRITE);
    *at = start + (whole - size) / 256 * 256;
    memset(reinterpret_cast<void*>(*at), 0xff, size < page ? size : page);
    add_memory(*at, size);
    sizes[*at] = size;
    bytes_used += size;
    return SUCCESS;
}
int cuMemFree_v2(uintptr_t at) {
    ALONE;
    const auto found = sizes.find(at);
    if (found == sizes.end() || !remove_memory(at)) return INVALID_VALUE;
    const size_t page = 4096, whole = (found->second + page - 1) / page * page;
    munmap(reinterpret_cast<void*>(at / page * page - page), whole + 2 * page);
    bytes_used -= found->second;
    sizes.erase(found);
    return SUCCESS;
}
int cuMemsetD8Async(uintptr_t at, unsigned char value, size_t size, Stream* stream) {
    ALONE;
    const int result = host_writes(stream, at, size);
    if (result != SUCCESS) return result;
    memset(reinterpret_cast<void*>(at), value, size);
    // iclab fills guard regions so; kernels must not touch them.
    if (value == 0xff) forbid(at, size);
    return SUCCESS;
}
int cuMemcpyHtoDAsync_v2(uintptr_t to, const void* from, size_t size, Stream* stream) {
    ALONE;
    const int result = host_writes(stream, to, size);
    if (result == SUCCESS) memcpy(reinterpret_cast<void*>(to), from, size);
    return result;
}
int cuMemcpyDtoHAsync_v2(void* to, uintptr_t from, size_t size, Stream* stream) {
    ALONE;
    if (stream->capture) return CAPTURE_WRONG;
    memcpy(to, reinterpret_cast<const void*>(from), size);
    return SUCCESS;
}
int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t size, Stream* stream) {
    return enqueue(stream, false, [=](uint32_t number, uint32_t) {
        if (!is_memory(to, size) || !is_memory(from, size)) return false;
        memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), size);
        written(to, size, number);
        return true;
    });
}

int cuStreamCreate(Stream** stream, unsigned) {
    *stream = new Stream;
    return SUCCESS;
}
int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0, *greatest = -5;
    return SUCCESS;
}
// Branches come in random orders, whatever their priority.
int cuStreamCreateWithPriority(Stream** stream, unsigned flags, int) { return cuStreamCreate(stream, flags); }
int cuStreamDestroy_v2(Stream* stream) {
    delete stream;
    return SUCCESS;
}
int cuStreamSynchronize(Stream* stream) {
    ALONE;
    return stream && stream->capture ? CAPTURE_WRONG : SUCCESS;
}
int cuStreamQuery(Stream*) {
    ALONE;
    return SUCCESS;
}
int cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
    ALONE;
    if (!event->capture) return stream->capture ? CAPTURE_WRONG : SUCCESS;
    stream->capture = event->capture;
    std::set<size_t>& last = event->capture->last[stream];
    last.insert(event->after.begin(), event->after.end());
    return SUCCESS;
}

int cuEventCreate(Event** event, unsigned) {
    *event = new Event;
    return SUCCESS;
}
int cuEventDestroy_v2(Event* event) {
    delete event;
    return SUCCESS;
}
int cuEventRecord(Event* event, Stream* stream) {
    ALONE;
    event->time = std::chrono::steady_clock::now();
    event->capture = stream->capture;
    event->after = stream->capture ? stream->capture->last[stream] : std::set<size_t>{};
    return SUCCESS;
}
int cuEventSynchronize(Event*) {
    ALONE;
    return SUCCESS;
}
int cuEventQuery(Event*) {
    ALONE;
    return SUCCESS;
}
int cuEventElapsedTime_v2(float* ms, Event* from, Event* to) {
    *ms = std::chrono::duration<float, std::milli>(to->time - from->time).count();
    return SUCCESS;
}
int cuEventElapsedTime(float* ms, Event* from, Event* to) { return cuEventElapsedTime_v2(ms, from, to); }

int cuStreamBeginCapture_v2(Stream* stream, int) {
    ALONE;
    if (stream->capture) return CAPTURE_WRONG;
    stream->capture = new Capture{{}, stream, {}};
    return SUCCESS;
}
int cuStreamIsCapturing(Stream* stream, int* status) {
    ALONE;
    *status = stream->capture != nullptr;
    return SUCCESS;
}
int cuStreamEndCapture(Stream* stream, Graph** graph) {
    ALONE;
    *graph = nullptr;
    Capture* capture = stream->capture;
    if (!capture || capture->origin != stream) return CAPTURE_WRONG;
    // Everything on other streams must have been joined.
    std::set<size_t> before_end;
    std::vector<size_t> left(capture->last[stream].begin(), capture->last[stream].end());
    while (!left.empty()) {
        const size_t node = left.back();
        left.pop_back();
        if (before_end.insert(node).second)
            left.insert(left.end(), capture->graph.nodes[node].after.begin(), capture->graph.nodes[node].after.end());
    }
    const bool joined = before_end.size() == capture->graph.nodes.size();
    for (const auto& [member, last] : capture->last) member->capture = nullptr;
    stream->capture = nullptr;
    if (joined && !capture->graph.nodes.empty()) *graph = new Graph(std::move(capture->graph));
    delete capture;
    if (!joined) fprintf(stderr, "emulated GPU: a stream capture ends before work on other streams has been joined\n");
    return joined ? SUCCESS : CAPTURE_WRONG;
}
int cuGraphInstantiateWithFlags(Graph** executable, Graph* graph, unsigned long long) {
    *executable = new Graph(*graph);
    return SUCCESS;
}
int cuGraphUpload(Graph*, Stream*) { return SUCCESS; }
int cuGraphLaunch(Graph* graph, Stream* stream) {
    ALONE;
    if (stream->capture) return CAPTURE_WRONG;
    std::vector<size_t> waits(graph->nodes.size());
    std::vector<std::vector<size_t>> before(graph->nodes.size());
    std::vector<size_t> ready;
    for (size_t i = 0; i < graph->nodes.size(); ++i) {
        const Node& node = graph->nodes[i];
        // A graph begins when what is ahead of it has ended.
        node.stream->chain_start = launches + 1;
        waits[i] = node.after.size();
        for (const size_t other : node.after) before[other].push_back(i);
        if (waits[i] == 0) ready.push_back(i);
    }
    while (!ready.empty()) {
        std::swap(ready[draw() % ready.size()], ready.back());
        const size_t next = ready.back();
        ready.pop_back();
        if (perform(graph->nodes[next]) != SUCCESS) return LAUNCH_FAILED;
        for (const size_t later : before[next])
            if (--waits[later] == 0) ready.push_back(later);
    }
    return SUCCESS;
}
int cuGraphDestroy(Graph* graph) {
    delete graph;
    return SUCCESS;
}
int cuGraphExecDestroy(Graph* graph) {
    delete graph;
    return SUCCESS;
}

// A shared object in memory, as the emulated NVRTC has made it.
int cuModuleLoadData(Module** module, const void* image) {
    ALONE;
    const Elf64_Ehdr& header = *static_cast<const Elf64_Ehdr*>(image);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return INVALID_IMAGE;
    const size_t size = header.e_shoff + (size_t)header.e_shnum * header.e_shentsize;
    // Under a name of its own: a library whose name is known is not loaded again.
    char name[] = "/tmp/emulated-kernels-XXXXXX";
    const int file = mkstemp(name);
    if (file < 0 || write(file, image, size) != (ssize_t)size) return INVALID_IMAGE;
    close(file);
    void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    unlink(name);
    if (!handle) {
        fprintf(stderr, "emulated GPU: %s\n", dlerror());
        return INVALID_IMAGE;
    }
    link_map* map;
    dlinfo(handle, RTLD_DI_LINKMAP, &map);
    const Elf64_Phdr* segments = reinterpret_cast<const Elf64_Phdr*>(static_cast<const char*>(image) + header.e_phoff);
    for (int i = 0; i < header.e_phnum; ++i)
        if (segments[i].p_type == PT_LOAD) add_image(map->l_addr + segments[i].p_vaddr, segments[i].p_memsz);
    *module = new Module{handle, {}};
    return SUCCESS;
}
int cuModuleUnload(Module* module) {
    ALONE;
    // Its code stays: graphs may still call it.
    delete module;
    return SUCCESS;
}
int cuModuleGetFunction(Function** function, Module* module, const char* name) {
    ALONE;
    std::unique_ptr<Function>& place = module->functions[name];
    if (!place) {
        void* call = dlsym(module->handle, ("launch_" + std::string(name)).c_str());
        void* sizes = dlsym(module->handle, ("sizes_" + std::string(name)).c_str());
        if (!call || !sizes) {
            fprintf(stderr, "emulated GPU: there is no kernel %s\n", name);
            return NOT_FOUND;
        }
        place = std::make_unique<Function>();
        place->name = name;
        place->call = reinterpret_cast<void (*)(void**)>(call);
        for (const size_t* size = reinterpret_cast<const size_t* (*)()>(sizes)(); *size > 0; ++size) place->sizes.push_back(*size);
    }
    *function = place.get();
    return SUCCESS;
}
int cuFuncSetAttribute(Function* function, int attribute, int value) {
    ALONE;
    if (attribute != 8 || value < 0 || (size_t)value > ALL_SHARED) return INVALID_VALUE;
    function->dynamic_limit = value;
    return SUCCESS;
}

struct LaunchAttribute {
    int id;
    char pad[4];
    int value[16];
};
constexpr int COOPERATIVE = 2, PROGRAMMATIC_STREAM_SERIALIZATION = 6;

struct LaunchConfig {
    unsigned grid[3], block[3], shared;
    Stream* stream;
    const LaunchAttribute* attributes;
    unsigned count;

    bool has(int id) const {
        return std::any_of(attributes, attributes + count, [=](const LaunchAttribute& it) { return it.id == id && it.value[0] != 0; });
    }
};

int cuLaunchKernelEx(const LaunchConfig* config, Function* function, void** arguments, void**) {
    ALONE;
    const size_t dynamic = config->shared;
    const unsigned others = config->grid[1] * config->grid[2] * config->block[1] * config->block[2];
    if (others != 1 || dynamic > (size_t)function->dynamic_limit || function->static_shared + dynamic > ALL_SHARED) return INVALID_VALUE;
    // Arguments are copied, as by the driver.
    auto copies = std::make_shared<std::vector<std::vector<uint64_t>>>();
    for (size_t i = 0; i < function->sizes.size(); ++i) {
        copies->emplace_back((function->sizes[i] + 7) / 8 + 8);
        memcpy(copies->back().data(), arguments[i], function->sizes[i]);
    }
    const unsigned blocks = config->grid[0], threads = config->block[0];
    const bool programmatic = config->has(PROGRAMMATIC_STREAM_SERIALIZATION), cooperative = config->has(COOPERATIVE);
    // One block of each multiprocessor, to be on the safe side.
    if (cooperative && blocks > (unsigned)multiprocessors()) return LAUNCH_TOO_LARGE;
    return enqueue(config->stream, programmatic, [=](uint32_t number, uint32_t chain_start) {
        std::vector<void*> places;
        for (std::vector<uint64_t>& copy : *copies) places.push_back(copy.data());
        return run({function->name.c_str(), function->call, places.data(), blocks, threads, dynamic, &function->statics,
                    &function->static_shared, number, chain_start, programmatic, cooperative});
    });
}

}  // extern "C"
