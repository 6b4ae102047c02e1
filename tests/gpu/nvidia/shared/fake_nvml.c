/* A libnvidia-ml.so.1 for tests: two GPUs, the second one split by MIG. FAIL names a function. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_sub_system_id;
    char bus_id[32];
} pci_info;

static int fails(const char *name) {
    const char *wanted = getenv("FAIL");
    if (wanted && !strcmp(wanted, "crash") && !strcmp(name, "nvmlDeviceGetUUID"))
        abort();
    return wanted && !strcmp(wanted, name);
}
#define OR_FAIL(code) if (fails(__func__)) return code

int nvmlInitWithFlags(unsigned flags) { OR_FAIL(9); (void)flags; return 0; }
int nvmlInit_v2(void) { OR_FAIL(9); return 0; }
const char *nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "GPU is lost"; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12040; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = (void *)(long)(index + 1);
    return 0;
}
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    (void)device; *major = 8; *minor = 0; return 0;
}
int nvmlDeviceGetMinorNumber(void *device, unsigned *minor) {
    *minor = 2 - (unsigned)(long)device; return 0;
}
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned size) {
    OR_FAIL(15);
    snprintf(uuid, size, "%s-%04lx-uid-%u", (long)device > 99 ? "MIG" : "GPU", (long)device, getuid());
    return 0;
}
int nvmlDeviceGetPciInfo_v3(void *device, pci_info *pci) {
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02lX:00.0", 0xa0 + (long)device);
    return 0;
}
int nvmlDeviceGetName(void *device, char *name, unsigned size) {
    (void)device; snprintf(name, size, "NVIDIA Fake"); return 0;
}
int nvmlDeviceGetBrand(void *device, int *brand) { (void)device; *brand = 14; return 0; }
int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) {
    if ((long)device == 1) return 3; /* not supported */
    *current = *pending = 1;
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) {
    (void)device; *count = 7; return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **mig) {
    (void)device;
    if (index != 1) return 6; /* not found */
    *mig = (void *)(long)100;
    return 0;
}
int nvmlDeviceGetGpuInstanceId(void *mig, unsigned *id) { (void)mig; *id = 7; return 0; }
int nvmlDeviceGetComputeInstanceId(void *mig, unsigned *id) { (void)mig; *id = 0; return 0; }
