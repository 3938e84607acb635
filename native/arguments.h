// What JavaScript hands over, checked: a wrong type is a TypeError, a number that makes no sense a RangeError.
#pragma once

#include <napi.h>

#include <cstdint>

namespace zerohop {

// The argument at `index`, a whole number from `least` to `most`; `most` is at most 2^53 - 1.
std::int64_t wholeNumber(const Napi::CallbackInfo& info, std::size_t index, const char* name, std::int64_t least,
                         std::int64_t most);

// The same of any value.
std::int64_t wholeNumber(Napi::Env env, const Napi::Value& value, const char* name, std::int64_t least,
                         std::int64_t most);

constexpr std::int64_t kMostSafeInteger = (std::int64_t{1} << 53) - 1;

}  // namespace zerohop
