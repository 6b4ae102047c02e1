/*
 * Ask the NVIDIA driver what it is, as any CUDA program does first: through libcuda.so.1, which is
 * a part of the driver and not of an image. It is loaded when the program runs, so this needs
 * nothing of CUDA to be compiled. Source of the calls: "CUDA Driver API", Initialization, Version
 * Management, Device Management.
 *
 * Status: 0 if the driver has answered, 1 if there is none, 2 if it answered with an error, 3 if
 * the library is a stand-in without code (the SIMULATED driver's).
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NODES = 64 };

/* Print how the kernel answers to the opening of a node: ENXIO if no driver is behind it, EPERM if
 * the container's cgroup forbids it. */
static void show_node(int number)
{
	char path[32];
	int fd;

	snprintf(path, sizeof path, "/dev/nvidia%d", number);
	if (access(path, F_OK) != 0)
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	printf("%s: %s\n", path, fd < 0 ? strerror(errno) : "opened");
	if (fd >= 0)
		close(fd);
}

static int failed(void *library, const char *call, int error)
{
	int (*name_of)(int, const char **) = dlsym(library, "cuGetErrorName");
	const char *name = NULL;

	if (name_of)
		name_of(error, &name);
	printf("%s: error %d (%s)\n", call, error, name ? name : "no name");
	return 2;
}

static int ask(void *library)
{
	int (*init)(unsigned int) = dlsym(library, "cuInit");
	int (*version_of)(int *) = dlsym(library, "cuDriverGetVersion");
	int (*count_of)(int *) = dlsym(library, "cuDeviceGetCount");
	int version = 0, count = 0, error;

	if (!init || !version_of || !count_of) {
		puts("libcuda.so.1: loaded, but it has no cuInit: a stand-in, as of a SIMULATED driver");
		return 3;
	}
	puts("libcuda.so.1: loaded");
	error = version_of(&version);
	if (error)
		return failed(library, "cuDriverGetVersion", error);
	printf("cuDriverGetVersion: CUDA %d.%d\n", version / 1000, version % 1000 / 10);
	error = init(0);
	if (error)
		return failed(library, "cuInit", error);
	puts("cuInit: done");
	error = count_of(&count);
	if (error)
		return failed(library, "cuDeviceGetCount", error);
	printf("cuDeviceGetCount: %d\n", count);
	return 0;
}

int main(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	int number, status = 1;

	for (number = 0; number < NODES; number++)
		show_node(number);
	if (library)
		status = ask(library);
	else
		printf("no driver: %s\n", dlerror());
	return status;
}
