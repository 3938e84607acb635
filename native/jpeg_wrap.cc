#include "jpeg_wrap.h"

#include <memory>
#include <string>

#include "arguments.h"
#include "elements.h"
#include "jpeg/turbo_jpeg.h"
#include "kernels/resample.h"

namespace zerohop {

namespace {

using jpeg::Frame;
using jpeg::TurboJpeg;
using kernels::Axis;
using kernels::Filter;

constexpr std::int64_t kLongestSide = 65535;  // as a JPEG counts

struct Resize {
  Axis columns, rows;
  Filter filter;
  std::size_t offset, stride;  // in bytes of the target
};

class JpegWorker final : public Napi::AsyncWorker {
 public:
  JpegWorker(const Napi::CallbackInfo& info, const Elements& bytes, const Elements& target, const Frame& frame, const Resize& resize)
      : Napi::AsyncWorker(info.Env(), "zerohop:jpeg"),
        deferred_(info.Env()),
        holds_{Napi::Persistent(info[0].As<Napi::Object>()), Napi::Persistent(info[1].As<Napi::Object>())},
        bytes_(bytes),
        target_(reinterpret_cast<std::uint8_t*>(target.data)),
        frame_(frame),
        resize_(resize) {}

  Napi::Promise promise() const { return deferred_.Promise(); }

 protected:
  // On a thread of the pool; what it throws becomes the rejection.
  void Execute() override {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(bytes_.data);
    const std::unique_ptr<std::uint8_t[]> pixels(new std::uint8_t[3 * frame_.decodedWidth() * frame_.decodedHeight()]);
    decoded_ = TurboJpeg::opened().decode(bytes, bytes_.bytes, frame_, pixels.get());
    if (!decoded_) return;
    const auto& [columns, rows, filter, offset, stride] = resize_;
    kernels::resample(pixels.get(), 3 * frame_.decodedWidth(), columns, rows, filter, target_ + offset, stride);
  }
  void OnOK() override { deferred_.Resolve(Napi::Boolean::New(Env(), decoded_)); }
  void OnError(const Napi::Error& error) override { deferred_.Reject(error.Value()); }

 private:
  const Napi::Promise::Deferred deferred_;
  const Napi::ObjectReference holds_[2];  // on the memory of both
  const Elements bytes_;
  std::uint8_t* const target_;
  const Frame frame_;
  const Resize resize_;
  bool decoded_ = false;
};

Elements bytesOf(const Napi::CallbackInfo& info, std::size_t index, const char* name) {
  const Elements elements = elementsOf(info, index, name);
  if (bytesOfElement(elements.type) == 1) return elements;
  throw Napi::TypeError::New(info.Env(), std::string(name) + ": expected bytes");
}

Napi::Object objectOf(const Napi::Env& env, const Napi::Value& value, const char* name) {
  if (value.IsObject()) return value.As<Napi::Object>();
  throw Napi::TypeError::New(env, std::string(name) + ": expected an object");
}

double numberOf(const Napi::Object& object, const char* name) {
  const Napi::Value value = object.Get(name);
  if (value.IsNumber()) return value.As<Napi::Number>().DoubleValue();
  throw Napi::TypeError::New(object.Env(), std::string(name) + ": expected a number");
}

std::int64_t wholeOf(const Napi::Object& object, const char* name, std::int64_t least, std::int64_t most) {
  return wholeNumber(object.Env(), object.Get(name), name, least, most);
}

Frame frameOf(const Napi::Object& object) {
  const auto width = static_cast<int>(wholeOf(object, "width", 1, kLongestSide));
  const auto height = static_cast<int>(wholeOf(object, "height", 1, kLongestSide));
  const auto shrink = static_cast<int>(wholeOf(object, "shrink", 1, 8));
  if ((shrink & (shrink - 1)) == 0) return {width, height, shrink};
  throw Napi::RangeError::New(object.Env(), "shrink: expected 1, 2, 4 or 8");
}

// Over so many pixels of what was decoded.
Axis axisOf(const Napi::Object& resize, const char* name, std::size_t length) {
  const Napi::Object object = objectOf(resize.Env(), resize.Get(name), name);
  const auto count = static_cast<std::size_t>(wholeOf(object, "count", 1, kLongestSide));
  const Axis axis{length, numberOf(object, "shrink"), numberOf(object, "start"), count};
  if (kernels::isWithinSource(axis)) return axis;
  throw Napi::RangeError::New(object.Env(), std::string(name) + ": expected pixels that lie in the source");
}

Resize resizeOf(const Napi::Object& object, const Frame& frame, const Elements& target) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;  // by which no product of sizes overflows
  const Axis columns = axisOf(object, "columns", frame.wholeWidth()), rows = axisOf(object, "rows", frame.wholeHeight());
  const auto filter = static_cast<Filter>(wholeOf(object, "filter", 0, kernels::kFilters - 1));
  const auto offset = static_cast<std::size_t>(wholeOf(object, "offset", 0, kMostBytes));
  const auto stride = static_cast<std::size_t>(wholeOf(object, "stride", 0, kMostBytes));
  const std::size_t rowBytes = 3 * columns.count;
  if (stride >= rowBytes && offset + (rows.count - 1) * stride + rowBytes <= target.bytes) return {columns, rows, filter, offset, stride};
  throw Napi::RangeError::New(object.Env(), "target: the rows do not lie in it");
}

void openJpegDecoder(const Napi::CallbackInfo& info) {
  if (!info[0].IsString()) throw Napi::TypeError::New(info.Env(), "path: expected a string");
  TurboJpeg::open(info[0].As<Napi::String>().Utf8Value());
}

// (bytes, target, frame, resize)
Napi::Value decodeJpeg(const Napi::CallbackInfo& info) {
  const Elements bytes = bytesOf(info, 0, "bytes"), target = bytesOf(info, 1, "target");
  const Frame frame = frameOf(objectOf(info.Env(), info[2], "frame"));
  const Resize resize = resizeOf(objectOf(info.Env(), info[3], "resize"), frame, target);
  auto* worker = new JpegWorker(info, bytes, target, frame, resize);
  const Napi::Promise promise = worker->promise();
  worker->Queue();
  return promise;
}

}  // namespace

void exportJpeg(Napi::Env env, Napi::Object exports) {
  exports.Set("openJpegDecoder", Napi::Function::New<openJpegDecoder>(env, "openJpegDecoder"));
  exports.Set("decodeJpeg", Napi::Function::New<decodeJpeg>(env, "decodeJpeg"));
}

}  // namespace zerohop
