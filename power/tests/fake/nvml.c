/* A stand-in for NVIDIA's management library, for tests. Its state is the directory that it lies in: `gpu0`, `gpu1` and so
 * on hold a file for each value, which a test may look at and set. A value without a file is not supported; a file
 * `error`, or `error_FUNCTION`, holds the number that all functions, or one, shall return. Knows no other machine. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK, UNINITIALIZED, INVALID, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 6 };
#define GPUS 16
#define MEMORY_CLOCK 2
static int gpus[GPUS];

static void place(char *path, size_t size, int gpu, const char *name) {
    Dl_info info;
    dladdr((void *)place, &info);
    char *end = strrchr(info.dli_fname, '/');
    int length = end ? (int)(end - info.dli_fname) : 1;
    const char *dir = end ? info.dli_fname : ".";
    if (gpu < 0) snprintf(path, size, "%.*s/%s", length, dir, name);
    else snprintf(path, size, "%.*s/gpu%d/%s", length, dir, gpu, name);
}

static int text(int gpu, const char *name, char *to, size_t size) {
    char path[4096];
    place(path, sizeof path, gpu, name);
    FILE *file = fopen(path, "r");
    if (!file) return NOT_SUPPORTED;
    size_t count = fread(to, 1, size - 1, file);
    fclose(file);
    to[count] = 0;
    to[strcspn(to, "\n")] = 0;
    return OK;
}

static int number(int gpu, const char *name, unsigned long long *to) {
    char line[64];
    int result = text(gpu, name, line, sizeof line);
    if (result == OK) *to = strtoull(line, NULL, 10);
    return result;
}

static int small(int gpu, const char *name, unsigned *to) {
    unsigned long long value;
    int result = number(gpu, name, &value);
    if (result == OK) *to = (unsigned)value;
    return result;
}

static int put(int gpu, const char *name, const char *value) {
    char path[4096], aside[4096];
    place(path, sizeof path, gpu, name);
    place(aside, sizeof aside, gpu, "aside");
    FILE *file = fopen(aside, "w");
    if (!file) return 999;
    fprintf(file, "%s\n", value);
    fclose(file);
    return rename(aside, path) ? 999 : OK;
}

static void append(int gpu, const char *name, const char *line) {
    char path[4096];
    place(path, sizeof path, gpu, name);
    FILE *file = fopen(path, "a");
    if (!file) return;
    fprintf(file, "%s\n", line);
    fclose(file);
}

/* Numbers on one line. */
static int list(int gpu, const char *name, unsigned *count, unsigned *to) {
    char line[1024];
    int result = text(gpu, name, line, sizeof line);
    unsigned room = *count;
    *count = 0;
    for (char *at = strtok(line, " "); result == OK && at && *count < room; at = strtok(NULL, " "))
        to[(*count)++] = (unsigned)atoi(at);
    return result;
}

static int has(int gpu, const char *name) {
    char path[4096];
    place(path, sizeof path, gpu, name);
    return access(path, F_OK) == 0;
}

/* What a function shall return before it does anything. */
static int check(int gpu, const char *function) {
    char name[128];
    unsigned long long error = OK;
    if (number(gpu, "error", &error) == OK) return (int)error;
    snprintf(name, sizeof name, "error_%s", function);
    if (number(gpu, name, &error) == OK) return (int)error;
    return OK;
}

#define GPU(device) ((int)((int *)(device) - gpus))
#define BEGIN(device) int gpu = GPU(device), failed = check(gpu, __func__); if (failed) return failed

int nvmlInit_v2(void) { return check(-1, __func__); }
int nvmlShutdown(void) { return OK; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) { snprintf(to, size, "550.54.14"); return OK; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    int failed = check(-1, __func__);
    for (*count = 0; *count < GPUS && has((int)*count, "name"); ++*count) {}
    return failed;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index >= GPUS || !has((int)index, "name")) return INVALID;
    *device = &gpus[index];
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    char found[128];
    for (int gpu = 0; gpu < GPUS; ++gpu)
        if (text(gpu, "uuid", found, sizeof found) == OK && strcmp(found, uuid) == 0) { *device = &gpus[gpu]; return OK; }
    return NOT_FOUND;
}

int nvmlDeviceGetName(void *device, char *to, unsigned size) { BEGIN(device); return text(gpu, "name", to, size); }
int nvmlDeviceGetUUID(void *device, char *to, unsigned size) { BEGIN(device); return text(gpu, "uuid", to, size); }
int nvmlDeviceGetPowerUsage(void *device, unsigned *mw) { BEGIN(device); return small(gpu, "power_mw", mw); }
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj) { BEGIN(device); return number(gpu, "energy_mj", mj); }
int nvmlDeviceGetPowerManagementLimit(void *device, unsigned *mw) { BEGIN(device); return small(gpu, "limit_mw", mw); }
int nvmlDeviceGetPowerManagementDefaultLimit(void *device, unsigned *mw) { BEGIN(device); return small(gpu, "default_mw", mw); }
int nvmlDeviceGetPersistenceMode(void *device, unsigned *mode) { BEGIN(device); return small(gpu, "persistence", mode); }
int nvmlDeviceGetClockInfo(void *device, unsigned type, unsigned *mhz) { BEGIN(device); (void)type; return small(gpu, "clock_mhz", mhz); }

/* `limits` has the bits of the reasons. */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
    BEGIN(device);
    return number(gpu, "limits", reasons);
}

/* `recorded` has the values of the driver's buffer, as time in microseconds and milliwatts in turn. */
struct sample { unsigned long long at; union { double d; unsigned small; unsigned long long large; } value; };
int nvmlDeviceGetSamples(void *device, unsigned type, unsigned long long since, unsigned *kind, unsigned *count, struct sample *to) {
    BEGIN(device);
    unsigned numbers[64], all = 64, room = *count;
    int result = list(gpu, "recorded", &all, numbers);
    if (result || type != 0) return NOT_SUPPORTED;
    *kind = 1;
    *count = 0;
    for (unsigned at = 0; at + 1 < all; at += 2) {
        if (numbers[at] <= since) continue;
        if (to && *count < room) to[*count] = (struct sample){ .at = numbers[at], .value.small = numbers[at + 1] };
        ++*count;
    }
    return *count ? OK : NOT_FOUND;
}

int nvmlDeviceGetPowerManagementLimitConstraints(void *device, unsigned *low, unsigned *high) {
    BEGIN(device);
    int result = small(gpu, "min_mw", low);
    return result ? result : small(gpu, "max_mw", high);
}

/* The lower of the limit and of what a management controller set beside the driver. */
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *mw) {
    BEGIN(device);
    unsigned beside;
    if (small(gpu, "enforced_mw", mw) == OK) return OK;
    int result = small(gpu, "limit_mw", mw);
    if (result == OK && small(gpu, "beside_mw", &beside) == OK && beside < *mw) *mw = beside;
    return result;
}

int nvmlDeviceSetPowerManagementLimit(void *device, unsigned mw) {
    BEGIN(device);
    unsigned low, high;
    char value[32];
    if (small(gpu, "min_mw", &low) || small(gpu, "max_mw", &high)) return NOT_SUPPORTED;
    if (mw < low || mw > high) return INVALID;
    snprintf(value, sizeof value, "%u", mw);
    return put(gpu, "limit_mw", value);
}

int nvmlDeviceSetPersistenceMode(void *device, unsigned mode) {
    BEGIN(device);
    return put(gpu, "persistence", mode ? "1" : "0");
}

int nvmlDeviceGetSupportedMemoryClocks(void *device, unsigned *count, unsigned *clocks) {
    BEGIN(device);
    return list(gpu, "memory_mhz", count, clocks);
}

/* `graphics_mhz` lists them, the highest first, and `graphics_mhz_405` those at a memory clock of 405 MHz. */
int nvmlDeviceGetSupportedGraphicsClocks(void *device, unsigned memory, unsigned *count, unsigned *clocks) {
    BEGIN(device);
    char name[64];
    snprintf(name, sizeof name, "graphics_mhz_%u", memory);
    return list(gpu, has(gpu, name) ? name : "graphics_mhz", count, clocks);
}

/* `applications_mhz` holds both clocks: that of the graphics first. */
int nvmlDeviceGetApplicationsClock(void *device, unsigned type, unsigned *mhz) {
    BEGIN(device);
    unsigned pair[2] = {0, 0}, count = 2;
    int result = list(gpu, "applications_mhz", &count, pair);
    *mhz = pair[type == MEMORY_CLOCK];
    return result;
}

/* A pair that is not supported is refused. Those that were set are in `set_mhz`, a line each. */
int nvmlDeviceSetApplicationsClocks(void *device, unsigned memory, unsigned graphics) {
    BEGIN(device);
    char value[64];
    unsigned clocks[64], count = 64;
    int result = nvmlDeviceGetSupportedGraphicsClocks(device, memory, &count, clocks), known = 0;
    for (unsigned at = 0; result == OK && at < count; ++at) known |= clocks[at] == graphics;
    if (result) return result;
    if (!known) return INVALID;
    snprintf(value, sizeof value, "%u %u", graphics, memory);
    append(gpu, "set_mhz", value);
    return has(gpu, "stuck") ? OK : put(gpu, "applications_mhz", value);
}

/* The GPU follows at once, unless it is `stuck`. */
int nvmlDeviceSetGpuLockedClocks(void *device, unsigned low, unsigned high) {
    BEGIN(device);
    char value[64];
    unsigned now;
    snprintf(value, sizeof value, "%u %u", low, high);
    int result = put(gpu, "locked_mhz", value);
    if (result == OK && !has(gpu, "stuck") && small(gpu, "clock_mhz", &now) == OK && now > high) {
        snprintf(value, sizeof value, "%u", high);
        result = put(gpu, "clock_mhz", value);
    }
    return result;
}

int nvmlDeviceResetGpuLockedClocks(void *device) {
    BEGIN(device);
    return put(gpu, "locked_mhz", "unlocked");
}
