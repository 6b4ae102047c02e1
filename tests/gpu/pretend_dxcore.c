/* A libdxcore.so for the pretend host as WSL2: two adapters, of which the first is too old.
 * The structures are those that libnvidia-container's dxcore.c has. */
#include <stdint.h>
#include <string.h>
#include <wchar.h>

#define STORE L"/usr/lib/wsl/drivers/nv_dispi.inf_amd64_1"

struct adapter { uint32_t handle; uint32_t low; int32_t high; uint32_t sources, flag; };
struct adapters { uint32_t count; struct adapter *rows; };
struct query { uint32_t adapter; int kind; void *data; uint32_t size; };
struct registry {
    uint32_t kind, flags;
    wchar_t name[260];
    uint32_t value_kind, physical, size, status;
    union { unsigned long long number; wchar_t text; } output;
};

int D3DKMTEnumAdapters2(struct adapters *asked) {
    asked->count = 2;
    if (asked->rows) {
        memset(asked->rows, 0, 2 * sizeof *asked->rows);
        asked->rows[0].handle = 0x40000000;
        asked->rows[1].handle = 0x40000040;
    }
    return 0;
}

int D3DKMTQueryAdapterInfo(struct query *asked) {
    if (asked->kind == 13) {
        *(uint32_t *)asked->data = asked->adapter == 0x40000000 ? 2500 : 3000;
        return 0;
    }
    struct registry *found = asked->data;
    if (asked->kind != 48 || found->kind != 2 || asked->size < sizeof *found) return 1;
    if (found->size) memcpy(&found->output, STORE, found->size);
    found->size = sizeof STORE - sizeof(wchar_t);
    return 0;
}
