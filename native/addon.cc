#include <napi.h>

#include "jpeg_wrap.h"
#include "kernels_wrap.h"
#include "processes/process_wrap.h"
#include "provider_wrap.h"
#include "run_loop_wrap.h"
#include "staging_wrap.h"

namespace {

// Raised together with BINDING_VERSION in src/native/addon.ts whenever the exports change their meaning, so that
// a binary left over from another version is told apart from one that fits.
constexpr char kBindingVersion[] = "16";

Napi::Object initialise(Napi::Env env, Napi::Object exports) {
  exports.Set("version", kBindingVersion);
  zerohop::exportStaging(env, exports);
  zerohop::exportRunLoops(env, exports);
  zerohop::exportProviders(env, exports);
  zerohop::exportKernels(env, exports);
  zerohop::exportJpeg(env, exports);
  zerohop::exportProcesses(env, exports);
  return exports;
}

}  // namespace

NODE_API_MODULE(zerohop, initialise)
