#include "arguments.h"

#include <cmath>
#include <string>

namespace zerohop {

namespace {

const char* typeName(const Napi::Value& value) {
  switch (value.Type()) {
    case napi_undefined: return "undefined";
    case napi_null: return "null";
    case napi_boolean: return "a boolean";
    case napi_number: return "a number";
    case napi_string: return "a string";
    case napi_symbol: return "a symbol";
    case napi_function: return "a function";
    case napi_external: return "an external";
    case napi_bigint: return "a bigint";
    default: return "an object";
  }
}

}  // namespace

std::int64_t wholeNumber(Napi::Env env, const Napi::Value& value, const char* name, std::int64_t least,
                         std::int64_t most) {
  const std::string expected = std::string(name) + ": expected a whole number from " + std::to_string(least) + " to " +
                               std::to_string(most) + ", received ";
  if (!value.IsNumber()) throw Napi::TypeError::New(env, expected + typeName(value));
  const double number = value.As<Napi::Number>().DoubleValue();
  const bool fits = std::trunc(number) == number && number >= static_cast<double>(least) &&
                    number <= static_cast<double>(most);
  if (!fits) throw Napi::RangeError::New(env, expected + value.ToString().Utf8Value());
  return static_cast<std::int64_t>(number);
}

std::int64_t wholeNumber(const Napi::CallbackInfo& info, std::size_t index, const char* name, std::int64_t least,
                         std::int64_t most) {
  return wholeNumber(info.Env(), info[index], name, least, most);
}

}  // namespace zerohop
