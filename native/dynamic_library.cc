#include "dynamic_library.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace zerohop {

#ifdef _WIN32

void* openLibrary(const std::string& path, std::string& error) {
  // System32 only for bare names: a driver must not be picked up from the working folder.
  const bool bare = path.find_first_of("/\\") == std::string::npos;
  HMODULE library = LoadLibraryExA(path.c_str(), nullptr, bare ? LOAD_LIBRARY_SEARCH_SYSTEM32 : 0);
  if (library == nullptr) error = path + ": Windows error " + std::to_string(GetLastError());
  return library;
}

void* findSymbol(void* library, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}

void pinThisLibrary() {
  HMODULE self;
  GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
                     reinterpret_cast<LPCSTR>(&pinThisLibrary), &self);
}

#else

void* openLibrary(const std::string& path, std::string& error) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* words = dlerror();
    error = words != nullptr ? words : path + ": cannot be opened";
  }
  return library;
}

void* findSymbol(void* library, const char* name) { return dlsym(library, name); }

void pinThisLibrary() {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&pinThisLibrary), &self) != 0) {
    dlopen(self.dli_fname, RTLD_NOW | RTLD_NODELETE | RTLD_NOLOAD);
  }
}

#endif

}  // namespace zerohop
