// Compiles shaders with a compiler of Windows, as wgpu does: d3dcompiler_47.dll (FXC) or dxcompiler.dll (DXC). Made for Wine by scripts/direct3d.mjs.
//
//     direct3d.exe COMPILER.dll LIST RESULTS
//
// A line of LIST is a file, its entry point and a target such as cs_5_1. RESULTS gets the files that were compiled, each with 0 behind it, or with 1
// and what the compiler says.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

/// The functions of ID3DBlob, IDxcBlob and IDxcBlobUtf8, of which the last has two more.
typedef struct Blob Blob;
struct Blob {
  const struct {
    HRESULT(WINAPI *query)(Blob *, const GUID *, void **);
    ULONG(WINAPI *add_ref)(Blob *);
    ULONG(WINAPI *release)(Blob *);
    void *(WINAPI *pointer)(Blob *);
    SIZE_T(WINAPI *size)(Blob *);
  } *functions;
};

typedef struct Result Result;
struct Result {
  const struct {
    HRESULT(WINAPI *query)(Result *, const GUID *, void **);
    ULONG(WINAPI *add_ref)(Result *);
    ULONG(WINAPI *release)(Result *);
    HRESULT(WINAPI *status)(Result *, HRESULT *);
    HRESULT(WINAPI *result)(Result *, Blob **);
    HRESULT(WINAPI *errors)(Result *, Blob **);
  } *functions;
};

typedef struct {
  const void *pointer;
  SIZE_T size;
  UINT encoding;
} Source;

typedef struct Compiler Compiler;
struct Compiler {
  const struct {
    HRESULT(WINAPI *query)(Compiler *, const GUID *, void **);
    ULONG(WINAPI *add_ref)(Compiler *);
    ULONG(WINAPI *release)(Compiler *);
    HRESULT(WINAPI *compile)(Compiler *, const Source *, const wchar_t **, UINT32, void *, const GUID *, void **);
  } *functions;
};

typedef HRESULT(WINAPI *CreateInstance)(const GUID *, const GUID *, void **);
typedef HRESULT(WINAPI *D3DCompile)(const void *, SIZE_T, const char *, const void *, void *, const char *, const char *, UINT, UINT, Blob **, Blob **);

static const GUID COMPILER_CLASS = {0x73e22d93, 0xe6ce, 0x47f3, {0xb5, 0xbf, 0xf0, 0x66, 0x4f, 0x39, 0xc1, 0xb0}};
static const GUID COMPILER = {0x228b4687, 0x5a6a, 0x4730, {0x90, 0x0c, 0x97, 0x02, 0xb2, 0x20, 0x3f, 0x54}};
static const GUID RESULT = {0x58346cda, 0xdde7, 0x4497, {0x94, 0x61, 0x6f, 0x87, 0xaf, 0x5e, 0x06, 0x59}};

/// What wgpu passes: D3DCOMPILE_ENABLE_STRICTNESS.
static const UINT STRICTNESS = 1 << 11;
static const UINT UTF8 = 65001;

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(2);
}

static char *read_file(const char *name, size_t *size) {
  FILE *file = fopen(name, "rb");
  if (!file) fail(name);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  char *text = calloc(*size + 1, 1);
  if (!text || fread(text, 1, *size, file) != *size) fail(name);
  fclose(file);
  return text;
}

/// Writes a line: messages of several lines become one.
static void say(FILE *results, const char *name, HRESULT status, Blob *errors) {
  fprintf(results, "%s %d ", name, FAILED(status));
  if (FAILED(status)) fprintf(results, "%08lx ", (unsigned long)status);
  const char *text = errors && FAILED(status) ? errors->functions->pointer(errors) : "";
  size_t length = *text ? errors->functions->size(errors) : 0;
  for (size_t i = 0; i < length && text[i]; i++) fputc(text[i] == '\n' || text[i] == '\r' ? ' ' : text[i], results);
  fputc('\n', results);
  fflush(results);
  // Somebody waits for a sign of life.
  fputc('.', stdout);
  fflush(stdout);
}

static HRESULT by_dxc(Compiler *compiler, const char *text, size_t size, const char *entry, const char *target, Blob **errors) {
  wchar_t wide_entry[64], wide_target[16];
  swprintf(wide_entry, 64, L"%S", entry);
  swprintf(wide_target, 16, L"%S", target);
  const wchar_t *arguments[] = {L"-E", wide_entry, L"-T", wide_target, L"-HV", L"2018", L"-no-warnings", L"-Ges", L"-enable-16bit-types"};
  // Before 6.2 there are none.
  const UINT32 count = strcmp(target, "cs_6_2") < 0 ? 8 : 9;
  const Source source = {text, size, UTF8};
  Result *result = NULL;
  HRESULT status = compiler->functions->compile(compiler, &source, arguments, count, NULL, &RESULT, (void **)&result);
  if (FAILED(status)) return status;
  result->functions->errors(result, errors);
  result->functions->status(result, &status);
  result->functions->release(result);
  return status;
}

int main(int count, char **arguments) {
  if (count != 4) fail("direct3d.exe COMPILER.dll LIST RESULTS");
  HMODULE library = LoadLibraryA(arguments[1]);
  if (!library) fail("the compiler cannot be loaded");
  D3DCompile fxc = (D3DCompile)(void *)GetProcAddress(library, "D3DCompile");
  CreateInstance create = (CreateInstance)(void *)GetProcAddress(library, "DxcCreateInstance");
  Compiler *compiler = NULL;
  if (!fxc && (!create || FAILED(create(&COMPILER_CLASS, &COMPILER, (void **)&compiler)))) fail("it is no compiler of shaders");
  FILE *results = fopen(arguments[3], "wb");
  if (!results) fail(arguments[3]);
  size_t length;
  char *list = read_file(arguments[2], &length);
  for (char *line = strtok(list, "\r\n"); line; line = strtok(NULL, "\r\n")) {
    char name[512], entry[64], target[16];
    if (sscanf(line, "%511s %63s %15s", name, entry, target) != 3) fail(line);
    size_t size;
    char *text = read_file(name, &size);
    Blob *errors = NULL, *code = NULL;
    const HRESULT status = fxc ? fxc(text, size, NULL, NULL, NULL, entry, target, STRICTNESS, 0, &code, &errors) : by_dxc(compiler, text, size, entry, target, &errors);
    say(results, name, status, errors);
    if (errors) errors->functions->release(errors);
    if (code) code->functions->release(code);
    free(text);
  }
  fclose(results);
  return 0;
}
