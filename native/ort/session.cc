#include "session.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>

#include "arena.h"
#include "heap.h"
#include "model_file.h"
#include "type_names.h"

namespace zerohop::ort {

namespace {

std::atomic<std::uint64_t> lastId{0};

constexpr std::uintmax_t kLargeBytes = 16 << 20;

bool isLarge(const ModelSource& source) {
  return (source.bytes != nullptr ? source.byteLength : sizeOfFile(source.path)) >= kLargeBytes;
}

Owned<OrtSession> openSession(const OrtLibrary& library, const ModelSource& source,
                              const std::vector<SessionSetting>& settings, Opening& opening) {
  const auto options = makeSessionOptions(library, settings);
  const Opening::Scope scope(opening, library, options.get());
  return own<OrtSession>(library, library.api.ReleaseSession, [&](OrtSession** out) {
    if (source.bytes != nullptr) {
      return library.api.CreateSessionFromArray(library.env, source.bytes, source.byteLength, options.get(), out);
    }
    const auto path = std::filesystem::u8path(source.path);
    return library.api.CreateSession(library.env, path.c_str(), options.get(), out);
  });
}

// Of the setting `secondThreads`; nullptr without it, and if it cannot be opened. Memory patterns are off: with them its arena
// would keep twice what a run of ResNet-50 needs.
Owned<OrtSession> openSecond(const OrtLibrary& library, const ModelSource& source, const std::vector<SessionSetting>& settings,
                           Opening& opening) {
  Owned<OrtSession> none(nullptr, library.api.ReleaseSession);
  const auto threads = std::find_if(settings.begin(), settings.end(), [](const auto& each) { return each.name == "secondThreads"; });
  if (threads == settings.end()) return none;
  auto own = settings;
  own[static_cast<std::size_t>(threads - settings.begin())].name = "intraOpNumThreads";
  own.push_back({"enableMemPattern", "", "0", {}});
  try {
    return openSession(library, source, own, opening);
  } catch (const OrtError&) {
    if (opening.cancelled()) throw;
    return none;
  }
}

void describeTensor(const OrtLibrary& library, const OrtTypeInfo* type, ValueInfo& info) {
  const OrtApi& api = library.api;
  const OrtTensorInfo* tensor = nullptr;  // part of `type`
  library.check(api.CastTypeInfoToTensorInfo(type, &tensor));
  library.check(api.GetTensorElementType(tensor, &info.type));
  std::size_t rank = 0;
  library.check(api.GetDimensionsCount(tensor, &rank));
  info.dims.resize(rank);
  std::vector<const char*> symbols(rank);
  library.check(api.GetDimensions(tensor, info.dims.data(), rank));
  library.check(api.GetSymbolicDimensions(tensor, symbols.data(), rank));
  for (const char* symbol : symbols) info.symbols.emplace_back(symbol != nullptr ? symbol : "");
}

template <typename Count, typename Name, typename Type>
std::vector<ValueInfo> describe(const OrtLibrary& library, const OrtSession* session, Count countOf, Name nameOf, Type typeOf) {
  std::size_t count = 0;
  library.check(countOf(session, &count));
  std::vector<ValueInfo> all(count);
  for (std::size_t index = 0; index < count; ++index) {
    ValueInfo& info = all[index];
    char* name = nullptr;
    library.check(nameOf(session, index, library.allocator, &name));
    info.name = name;
    library.check(library.api.AllocatorFree(library.allocator, name));
    const auto type = own<OrtTypeInfo>(library, library.api.ReleaseTypeInfo,
                                       [&](OrtTypeInfo** out) { return typeOf(session, index, out); });
    library.check(library.api.GetOnnxTypeFromTypeInfo(type.get(), &info.kind));
    info.typeName = ort::nameOf(library, type.get());
    if (info.kind == ValueKind::kTensor) describeTensor(library, type.get(), info);
  }
  return all;
}

}  // namespace

Session::Session(const OrtLibrary& its, const ModelSource& source, const std::vector<SessionSetting>& settings, Opening& opening)
    : library(its),
      id(++lastId),
      runEntries(runEntriesOf(settings)),
      large(isLarge(source)),
      path(source.path),
      session_(openSession(its, source, settings, opening)),
      second_(openSecond(its, source, settings, opening)) {
  const OrtApi& api = library.api;
  inputs = describe(library, get(), api.SessionGetInputCount, api.SessionGetInputName, api.SessionGetInputTypeInfo);
  neededInputs = inputs.size();
  auto initializers = describe(library, get(), api.SessionGetOverridableInitializerCount,
                               api.SessionGetOverridableInitializerName, api.SessionGetOverridableInitializerTypeInfo);
  std::move(initializers.begin(), initializers.end(), std::back_inserter(inputs));
  outputs = describe(library, get(), api.SessionGetOutputCount, api.SessionGetOutputName, api.SessionGetOutputTypeInfo);
  if (large) giveBackFreeMemoryLater();
  beginArena(*this);
  aliases_ = std::make_unique<std::atomic<bool>[]>(outputs.size());
}

}  // namespace zerohop::ort
