/* A libnvidia-ml.so.1 for the pretend host: 4 x A100, as the environment says.
 *   PRETEND_GPUS=4  PRETEND_MINORS=0,1,2,3  PRETEND_MIG=3 (three devices)  PRETEND_FAIL=init:9 | uuid:15
 *   PRETEND_IDS=1: a GPU's name is the uid and gid of the process that asks */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_sub_system_id;
    char bus_id[32];
} pci_info;

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}
static int fails(const char *name) {
    const char *text = getenv("PRETEND_FAIL");
    size_t length = strlen(name);
    return text && !strncmp(text, name, length) && text[length] == ':' ? atoi(text + length + 1) : 0;
}
int nvmlInitWithFlags(unsigned flags) { (void)flags; return fails("init"); }
int nvmlInit_v2(void) { return fails("init"); }
const char *nvmlErrorString(int code) {
    return code == 4 ? "Insufficient Permissions" : code == 9 ? "Driver Not Loaded" : code == 15 ?
        "GPU is lost" : code == 18 ? "Driver/library version mismatch" : "Unknown Error";
}
int nvmlSystemGetDriverVersion(char *text, unsigned size) {
    snprintf(text, size, "550.163.01"); return 0;
}
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12040; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = (unsigned)number("PRETEND_GPUS", 4); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = (void *)(long)(index + 1); return 0;
}
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    (void)device; *major = 8; *minor = 0; return 0;
}
int nvmlDeviceGetMinorNumber(void *device, unsigned *minor) {
    const char *text = getenv("PRETEND_MINORS");
    if (fails("minor")) return fails("minor");
    *minor = (unsigned)((text ? text : "0,1,2,3")[2 * ((long)device - 1)] - '0');
    return 0;
}
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned size) {
    long index = (long)device;
    if (fails("uuid")) return fails("uuid");
    if (index >= 100) snprintf(uuid, size, "MIG-bbbbbbbb-0000-4000-8000-%012lx", index - 100);
    else snprintf(uuid, size, "GPU-aaaaaaaa-0000-4000-8000-%012lx", index - 1);
    return 0;
}
int nvmlDeviceGetPciInfo_v3(void *device, pci_info *pci) {
    static const char *buses[] = {"07", "0F", "47", "4E"};
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%s:00.0", buses[(long)device - 1]);
    return 0;
}
int nvmlDeviceGetName(void *device, char *name, unsigned size) {
    (void)device;
    if (getenv("PRETEND_IDS")) snprintf(name, size, "%d %d", (int)getuid(), (int)getgid());
    else snprintf(name, size, "NVIDIA A100-SXM4-40GB");
    return 0;
}
int nvmlDeviceGetBrand(void *device, int *brand) { (void)device; *brand = 14; return 0; }
int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) {
    *current = *pending = number("PRETEND_MIG", -1) == (long)device - 1;
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) { (void)device; *count = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **mig) {
    (void)device;
    if (index >= 3) return 6; /* not found */
    *mig = (void *)(long)(100 + index);
    return 0;
}
int nvmlDeviceGetGpuInstanceId(void *mig, unsigned *id) { *id = 7 + (unsigned)((long)mig - 100); return 0; }
int nvmlDeviceGetComputeInstanceId(void *mig, unsigned *id) { (void)mig; *id = 0; return 0; }
