// The operating system's loader, for what must not be a link dependency: drivers.
#pragma once

#include <string>

namespace zerohop {

// Opens a shared library with its symbols kept local; nullptr leaves the loader's words in `error`.
// There is no close: a driver that has started threads must not be unmapped.
void* openLibrary(const std::string& path, std::string& error);

void* findSymbol(void* library, const char* name);

// Keeps this library mapped until the process ends. Node closes an addon together with the last worker
// that loaded it, but the pool, and finalizers of shared buffers, live on.
void pinThisLibrary();

}  // namespace zerohop
