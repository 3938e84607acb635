// What tells one model file from another, its weights in other files included.
#pragma once

#include <cstdint>
#include <string>

namespace zerohop::ort {

// Equal only while the file, its place, and those of its weights that lie elsewhere have not changed.
std::string identityOfFile(const std::string& path);

// Bytes of the file and of those of its weights.
std::uintmax_t sizeOfFile(const std::string& path);

}  // namespace zerohop::ort
