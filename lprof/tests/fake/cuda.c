/* A stand-in for NVIDIA's driver library, for tests. Its GPU is the processor of this machine: the kernels of lud.k are compiled as
 * C with it, the groups of a launch run one after the other, and each item of a group is a fiber, so that barriers work. Its
 * state is the directory that it lies in. Files there hold numbers: `version`, `devices`, `capability` (major number times 10
 * plus the minor one), `memory_bytes` of a device, `pools` (0: no asynchronous allocation), and `error_FUNCTION`, which a
 * function returns instead of its work. It writes `flags`, those of the context. -DOLD leaves out a function. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { OK, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, NO_DEVICE = 100, INVALID_DEVICE, INVALID_IMAGE = 200, INVALID_CONTEXT };
enum { NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, OUT_OF_RESOURCES, LAUNCH_FAILED = 719 };

static FILE *opened(const char *name, const char *mode) {
    Dl_info info;
    char path[4096];
    dladdr((void *)opened, &info);
    snprintf(path, sizeof path, "%.*s/%s", (int)(strrchr(info.dli_fname, '/') - info.dli_fname), info.dli_fname, name);
    return fopen(path, mode);
}

static long long number(const char *name, long long otherwise) {
    long long value = otherwise;
    FILE *file = opened(name, "r");
    if (file) {
        if (fscanf(file, "%lld", &value) != 1) value = otherwise;
        fclose(file);
    }
    return value;
}

static int has_begun;
static void *current_context;

static int check(const char *function) {
    char name[128];
    snprintf(name, sizeof name, "error_%s", function);
    long long error = number(name, OK);
    return error ? (int)error : has_begun ? OK : NOT_INITIALIZED;
}

#define CHECK() do { int failed = check(__func__); if (failed) return failed; } while (0)
#define CHECK_CONTEXT() do { CHECK(); if (!current_context) return INVALID_CONTEXT; } while (0)
#define CHECK_DEVICE(device) do { CHECK(); if ((device) < 0 || (device) >= number("devices", 1)) return INVALID_DEVICE; } while (0)

/* The library and its devices. */

int cuDriverGetVersion(int *version) { return *version = (int)number("version", 12040), OK; }

int cuInit(unsigned flags) {
    has_begun = 1;
    CHECK();
    return number("devices", 1) ? (int)flags : NO_DEVICE;
}

static const struct { int code; const char *name, *text; } errors[] = {
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};

static int described(int code, const char **to, int is_name) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) return *to = is_name ? errors[i].name : errors[i].text, OK;
    return *to = NULL, INVALID_VALUE;
}

int cuGetErrorName(int code, const char **name) { return described(code, name, 1); }
int cuGetErrorString(int code, const char **text) { return described(code, text, 0); }
int cuDeviceGetCount(int *count) { CHECK(); return *count = (int)number("devices", 1), OK; }
int cuDeviceGet(int *device, int index) { CHECK_DEVICE(index); return *device = index, OK; }
int cuDeviceGetName(char *to, int size, int device) { CHECK_DEVICE(device); return snprintf(to, (size_t)size, "Fake GPU"), OK; }
int cuDeviceTotalMem_v2(size_t *to, int device) { CHECK_DEVICE(device); return *to = (size_t)number("memory_bytes", 1 << 24), OK; }

int cuDeviceGetAttribute(int *to, int attribute, int device) {
    CHECK_DEVICE(device);
    int capability = (int)number("capability", 61);
    switch (attribute) {
    case 75: return *to = capability / 10, OK;
    case 76: return *to = capability % 10, OK;
    case 115: return *to = (int)number("pools", 1), OK;
    default: return INVALID_VALUE;
    }
}

/* Contexts. There is one for each device, whose number plus one is its address. */

int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) {
    CHECK_DEVICE(device);
    FILE *file = opened("flags", "w");
    if (!file) return INVALID_VALUE;
    fprintf(file, "%u", flags);
    return fclose(file) ? INVALID_VALUE : OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device) { CHECK_DEVICE(device); return *context = (char *)NULL + device + 1, OK; }
int cuDevicePrimaryCtxRelease_v2(int device) { CHECK_DEVICE(device); return OK; }
int cuCtxGetCurrent(void **context) { CHECK(); return *context = current_context, OK; }
int cuCtxSetCurrent(void *context) { CHECK(); return current_context = context, OK; }
int cuStreamSynchronize(void *stream) { CHECK_CONTEXT(); return stream ? INVALID_VALUE : OK; }

/* Memory. */

#define BUFFERS 16
static struct { char *data; size_t size; } buffers[BUFFERS];

static size_t used(void) {
    size_t sum = 0;
    for (int i = 0; i < BUFFERS; i++) sum += buffers[i].size;
    return sum;
}

/* Size of the rest of the buffer from this address on, or 0. */
static size_t room(const char *at) {
    for (int i = 0; i < BUFFERS; i++)
        if (at >= buffers[i].data && at < buffers[i].data + buffers[i].size) return (size_t)(buffers[i].data + buffers[i].size - at);
    return 0;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    CHECK_CONTEXT();
    *total = (size_t)number("memory_bytes", 1 << 24);
    return *free_bytes = *total - used(), OK;
}

static int allocate(char **to, size_t size) {
    if (!size || used() + size > (size_t)number("memory_bytes", 1 << 24)) return OUT_OF_MEMORY;
    for (int i = 0; i < BUFFERS; i++)
        if (!buffers[i].size) return *to = buffers[i].data = memset(malloc(size), 0xff, size), buffers[i].size = size, OK;
    return OUT_OF_MEMORY;
}

static int release(char *data) {
    for (int i = 0; i < BUFFERS; i++)
        if (buffers[i].size && buffers[i].data == data) return free(data), buffers[i].data = NULL, buffers[i].size = 0, OK;
    return INVALID_VALUE;
}

int cuMemAlloc_v2(char **to, size_t size) { CHECK_CONTEXT(); return allocate(to, size); }
int cuMemFree_v2(char *data) { CHECK_CONTEXT(); return release(data); }

int cuMemAllocAsync(char **to, size_t size, void *stream) {
    CHECK_CONTEXT();
    return stream || !number("pools", 1) ? INVALID_VALUE : allocate(to, size);
}

int cuMemcpyHtoDAsync_v2(char *to, const void *from, size_t size, void *stream) {
    CHECK_CONTEXT();
    return stream || room(to) < size ? INVALID_VALUE : (memcpy(to, from, size), OK);
}

int cuMemcpyDtoHAsync_v2(void *to, const char *from, size_t size, void *stream) {
    CHECK_CONTEXT();
    return stream || room(from) < size ? INVALID_VALUE : (memcpy(to, from, size), OK);
}

#ifndef OLD
int cuMemFreeAsync(char *data, void *stream) { CHECK_CONTEXT(); return stream || !number("pools", 1) ? INVALID_VALUE : release(data); }
#endif

/* Kernels. */

typedef struct { int x, y; } Pair;
static Pair group, item, items;
static int is_waiting;
static void wait_for_others(void);

#define T 64
#define KERNEL static void
#define GLOBAL
#define LOCAL static
#define BARRIER wait_for_others()
#define GROUP(xy) (group.xy)
#define ITEM(xy) (item.xy)
#define ITEMS(xy) (items.xy)
#include "../../src/apps/lud/lud.k"

typedef struct { const char *name; void (*run)(float *, int, int); } Kernel;
static const Kernel kernels[] = {{"lud_diagonal", lud_diagonal}, {"lud_perimeter", lud_perimeter}, {"lud_internal", lud_internal}};

#define FIBERS 1024
#define STACK 65536
static ucontext_t scheduler, fibers[FIBERS];
static char stacks[FIBERS][STACK];
static int running;
static const Kernel *kernel;
static float *matrix;
static int dimension, offset;

static void run_item(void) { kernel->run(matrix, dimension, offset); }

static void wait_for_others(void) {
    is_waiting = 1;
    swapcontext(&fibers[running], &scheduler);
}

static void prepare(int i) {
    getcontext(&fibers[i]);
    fibers[i].uc_stack.ss_sp = stacks[i];
    fibers[i].uc_stack.ss_size = STACK;
    fibers[i].uc_link = &scheduler;
    makecontext(&fibers[i], run_item, 0);
}

static int run_group(void) {
    int count = items.x * items.y, waiting = count;
    for (int i = 0; i < count; i++) prepare(i);
    while (waiting) {
        waiting = 0;
        for (running = 0; running < count; running++) {
            item = (Pair){running % items.x, running / items.x};
            is_waiting = 0;
            swapcontext(&scheduler, &fibers[running]);
            waiting += is_waiting;
        }
        /* A GPU hangs at a barrier that only some items reach. */
        if (waiting && waiting != count) return LAUNCH_FAILED;
    }
    return OK;
}

int cuLaunchKernel(const Kernel *function, unsigned gx, unsigned gy, unsigned gz, unsigned x, unsigned y, unsigned z, unsigned shared,
                   void *stream, void **arguments, void **extra) {
    CHECK_CONTEXT();
    if (!gx || !gy || gz != 1 || !x || !y || z != 1 || shared || stream || extra) return INVALID_VALUE;
    if (x * y > FIBERS) return OUT_OF_RESOURCES;
    kernel = function;
    matrix = *(float **)arguments[0];
    dimension = *(int *)arguments[1];
    offset = *(int *)arguments[2];
    if (room((char *)matrix) < sizeof *matrix * (size_t)dimension * (size_t)dimension) return ILLEGAL_ADDRESS;
    items = (Pair){(int)x, (int)y};
    int failed = OK;
    for (group.y = 0; group.y < (int)gy; group.y++)
        for (group.x = 0; group.x < (int)gx && !failed; group.x++) failed = run_group();
    return failed;
}

int cuModuleLoadData(char **module, const char *image) {
    CHECK_CONTEXT();
    return strstr(image, ".target sm_60") ? (*module = strdup(image), OK) : INVALID_IMAGE;
}

int cuModuleUnload(char *module) { CHECK_CONTEXT(); return free(module), OK; }

/* The image must have the kernel, too. */
int cuModuleGetFunction(const Kernel **function, const char *module, const char *name) {
    CHECK_CONTEXT();
    char entry[128];
    snprintf(entry, sizeof entry, ".visible .entry %s(", name);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (!strcmp(kernels[i].name, name) && strstr(module, entry)) return *function = &kernels[i], OK;
    return NOT_FOUND;
}
