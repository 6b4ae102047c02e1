/* A libcuda.so.1 for the tests of the recipe cuda-sim: it answers as $PRETEND says. */
#include <stdlib.h>

int cuInit(unsigned int flags)
{
	return atoi(getenv("PRETEND")) < 0 ? 100 : flags;
}

int cuDriverGetVersion(int *version)
{
	*version = 12040;
	return 0;
}

int cuDeviceGetCount(int *count)
{
	*count = atoi(getenv("PRETEND"));
	return 0;
}

int cuGetErrorName(int error, const char **name)
{
	*name = error == 100 ? "CUDA_ERROR_NO_DEVICE" : NULL;
	return 0;
}
