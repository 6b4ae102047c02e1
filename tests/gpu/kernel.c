/* A CUDA program without CUDA's toolkit: the driver's own interface, found at run time, and a kernel
 * in PTX that the driver compiles. 32 threads write 1 to 32; their sum is 528. */

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const char *KERNEL =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry fill(.param .u64 out)\n{\n"
    "  .reg .u32 %r<3>;\n  .reg .u64 %d<4>;\n"
    "  ld.param.u64 %d1, [out];\n  cvta.to.global.u64 %d1, %d1;\n"
    "  mov.u32 %r1, %tid.x;\n  mul.wide.u32 %d2, %r1, 4;\n  add.u64 %d3, %d1, %d2;\n"
    "  add.u32 %r2, %r1, 1;\n  st.global.u32 [%d3], %r2;\n  ret;\n}\n";

typedef uintptr_t Word;
typedef int Function(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word);

static void *library;

/* Call a function of libcuda that takes up to eleven words; end the program where it fails. */
static void call(const char *name, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e,
                 uintptr_t f, uintptr_t g, uintptr_t h, uintptr_t i, uintptr_t j, uintptr_t k) {
    Function *function = (Function *)dlsym(library, name);
    int result = function ? function(a, b, c, d, e, f, g, h, i, j, k) : -1;
    if (result) {
        fprintf(stderr, "%s: error %d\n", name, result);
        exit(1);
    }
}

#define CALL(name, a, b, c, d) \
    call(name, (uintptr_t)(a), (uintptr_t)(b), (uintptr_t)(c), (uintptr_t)(d), 0, 0, 0, 0, 0, 0, 0)

int main(void) {
    int count = 0, device = 0;
    void *context, *module, *function;
    uint64_t memory;
    uint32_t numbers[32] = {0}, sum = 0;
    void *arguments[] = {&memory};
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    CALL("cuInit", 0, 0, 0, 0);
    CALL("cuDeviceGetCount", &count, 0, 0, 0);
    CALL("cuDeviceGet", &device, 0, 0, 0);
    CALL("cuCtxCreate_v2", &context, 0, device, 0);
    CALL("cuModuleLoadData", &module, KERNEL, 0, 0);
    CALL("cuModuleGetFunction", &function, module, "fill", 0);
    CALL("cuMemAlloc_v2", &memory, sizeof numbers, 0, 0);
    call("cuLaunchKernel", (uintptr_t)function, 1, 1, 1, 32, 1, 1, 0, 0, (uintptr_t)arguments, 0);
    CALL("cuCtxSynchronize", 0, 0, 0, 0);
    CALL("cuMemcpyDtoH_v2", numbers, memory, sizeof numbers, 0);
    for (int at = 0; at < 32; at++) sum += numbers[at];
    printf("gpus %d sum %u\n", count, sum);
    return 0;
}
