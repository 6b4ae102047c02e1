/* A libnvidia-ml.so.1 of two GPUs, with what `stats` asks of it: use, memory, UUID. */
#include <stdio.h>

typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned long long total, free, used; } memory;

int nvmlInit_v2(void) { return 0; }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = (void *)(long)(index + 1); return 0;
}
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned size) {
    snprintf(uuid, size, "%s-%ld", "GPU-of-the-test", (long)device - 1); return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, memory *found) {
    found->total = 80ull << 30; found->used = (unsigned long long)(long)device << 30;
    found->free = found->total - found->used; return 0;
}
int nvmlDeviceGetUtilizationRates(void *device, utilization *found) {
    found->gpu = 30 + (unsigned)(long)device; found->memory = 0; return 0;
}
