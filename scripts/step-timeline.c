// Writes when each kernel of a program ran, as CUPTI reports it: `scripts/step-timeline` builds this, and the CUDA driver loads it
// (CUDA_INJECTION64_PATH). Kernels of a CUDA graph are reported one by one; a step takes about 2 % longer for that.

#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The last kernels: the file is written when the program ends.
#define KEPT 60000
#define BUFFER (8 << 20)

typedef struct {
    unsigned long long start, end;
    unsigned stream, blocks, threads, shared, registers;
    char name[72];
} Kernel;

static Kernel *kernels;
static unsigned long long count;

static void CUPTIAPI requested(uint8_t **buffer, size_t *size, size_t *most) {
    *size = BUFFER;
    *buffer = aligned_alloc(64, *size);
    *most = 0;
}

static void CUPTIAPI completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    CUpti_Activity *record = NULL;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
        const CUpti_ActivityKernel10 *from = (const void *)record;
        Kernel *to = &kernels[count++ % KEPT];
        to->start = from->start, to->end = from->end, to->stream = from->streamId;
        to->blocks = from->gridX * from->gridY * from->gridZ;
        to->threads = from->blockX * from->blockY * from->blockZ;
        to->shared = from->dynamicSharedMemory + from->staticSharedMemory;
        to->registers = from->registersPerThread;
        strncpy(to->name, from->name ? from->name : "?", sizeof to->name - 1);
    }
    free(buffer);
}

static void finish(void) {
    cuptiActivityFlushAll(1);
    const char *path = getenv("STEP_TIMELINE");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    for (unsigned long long i = count > KEPT ? count - KEPT : 0; i < count; ++i) {
        const Kernel *k = &kernels[i % KEPT];
        fprintf(file, "%llu %llu %u %u %u %u %u %s\n", k->start, k->end, k->stream, k->blocks, k->threads, k->shared, k->registers,
                k->name);
    }
    fclose(file);
}

int InitializeInjection(void) {
    kernels = calloc(KEPT, sizeof *kernels);
    if (!kernels) return 0;
    CUptiResult result = cuptiActivityRegisterCallbacks(requested, completed);
    if (result == CUPTI_SUCCESS) result = cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    if (result != CUPTI_SUCCESS) fprintf(stderr, "CUPTI records no kernels: error %d\n", result);
    atexit(finish);
    return 1;
}
