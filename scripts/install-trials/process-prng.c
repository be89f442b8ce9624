// Stands in for bcryptprimitives.dll, of which Rust's standard library wants this one function.
#include <windows.h>

#define RtlGenRandom SystemFunction036
BOOLEAN NTAPI RtlGenRandom(PVOID buffer, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *buffer, SIZE_T length) { return RtlGenRandom(buffer, (ULONG)length); }
