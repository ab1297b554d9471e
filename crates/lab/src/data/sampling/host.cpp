// Runs prompts.cu on the CPU, for its test: a block's threads are coroutines that take turns between barriers, in
// ascending and in descending order. What two threads do to each other without a barrier differs between the orders.
// Shared memory is filled with NaN before each block, and the outputs before each launch.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("shared")))

struct Index { unsigned x; };
static Index blockIdx, threadIdx;
static void __syncthreads();

#include "source.cu"

extern char __start_shared[], __stop_shared[];

static ucontext_t scheduler, threads[THREADS];
static bool ended[THREADS];
static float tokens[BATCH * 2 * POINTS * FEATURES], targets[BATCH * POINTS];
static std::vector<ScheduleRow> rows;
static u64 progress[2];

static void __syncthreads() { swapcontext(&threads[threadIdx.x], &scheduler); }

static void thread() {
    sample(tokens, targets, rows.data(), progress);
    ended[threadIdx.x] = true;
}

static void run_block(bool descending) {
    static char stacks[THREADS][1 << 15];
    memset(__start_shared, 0xff, __stop_shared - __start_shared);
    for (int t = 0; t < THREADS; ++t) {
        getcontext(&threads[t]);
        threads[t].uc_stack.ss_sp = stacks[t];
        threads[t].uc_stack.ss_size = sizeof stacks[t];
        threads[t].uc_link = &scheduler;
        makecontext(&threads[t], thread, 0);
        ended[t] = false;
    }
    for (int running = THREADS; running > 0;) {
        for (int turn = 0; turn < THREADS; ++turn) {
            threadIdx.x = descending ? THREADS - 1 - turn : turn;
            swapcontext(&scheduler, &threads[threadIdx.x]);
            running -= ended[threadIdx.x];
        }
        if (running > 0 && running < THREADS) {
            fprintf(stderr, "some threads ended, others wait at a barrier\n");
            exit(1);
        }
    }
}

// program FILE STEP FIRST DIMS…: appends tokens and targets to the file, for each number of dimensions in both orders.
int main(int count, char** arguments) {
    FILE* file = fopen(arguments[1], "wb");
    progress[0] = strtoull(arguments[2], nullptr, 10);
    progress[1] = strtoull(arguments[3], nullptr, 10);
    rows.assign(progress[0] - progress[1] + 2, ScheduleRow{0, 0, -1, 0});
    for (int i = 4; i < count; ++i) {
        rows[progress[0] - progress[1]].dims = atoi(arguments[i]);
        for (int descending = 0; descending < 2; ++descending) {
            memset(tokens, 0xff, sizeof tokens);
            memset(targets, 0xff, sizeof targets);
            for (blockIdx.x = 0; blockIdx.x < BATCH; ++blockIdx.x) run_block(descending);
            fwrite(tokens, sizeof tokens, 1, file);
            fwrite(targets, sizeof targets, 1, file);
        }
    }
    return fclose(file);
}
