// The entries of ONNX Runtime's C API that are used here, in declarations of our own. The API is a table of function
// pointers whose order never changes: an entry is its place in that table (counted from 0) and its signature.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zerohop::ort {

struct OrtStatus;
struct OrtEnv;
struct OrtSession;
struct OrtSessionOptions;
struct OrtRunOptions;
struct OrtValue;
struct OrtTypeInfo;
struct OrtTensorInfo;
struct OrtSequenceInfo;
struct OrtMapInfo;
struct OrtOptionalInfo;
struct OrtMemoryInfo;
struct OrtAllocator;
struct OrtCudaOptions;
struct OrtTensorRtOptions;
struct OrtKeyValuePairs;
struct OrtHardwareDevice;
struct OrtEpDevice;

#ifdef _WIN32
using OrtPathChar = wchar_t;
#else
using OrtPathChar = char;
#endif

// The version of the table that is asked for; that of ONNX Runtime 1.24.
constexpr std::uint32_t kOrtApiVersion = 24;

// `TensorProto.DataType`, as far as the code names them; type_names.cc has all. Newer ones (uint2, int2, float8e8m0) ONNX
// Runtime numbers otherwise, and up to 1.30 confuses itself.
enum class ElementType : int {
  kUndefined = 0, kFloat32 = 1, kInt32 = 6, kInt64 = 7, kString = 8,
};

enum class HardwareKind : int { kCpu, kGpu, kNpu };

enum class ValueKind : int { kUnknown, kTensor, kSequence, kMap, kOpaque, kSparseTensor, kOptional };

// Only what is fatal: errors come as a status.
constexpr int kLogFatal = 4;

// (place, result, name, parameters...)
#define ZEROHOP_ORT_ENTRIES(ENTRY)                                                                                   \
  ENTRY(2, const char*, GetErrorMessage, const OrtStatus*)                                                           \
  ENTRY(3, OrtStatus*, CreateEnv, int logLevel, const char* logId, OrtEnv** out)                                     \
  ENTRY(7, OrtStatus*, CreateSession, const OrtEnv*, const OrtPathChar* path, const OrtSessionOptions*, OrtSession**) \
  ENTRY(8, OrtStatus*, CreateSessionFromArray, const OrtEnv*, const void* model, std::size_t bytes,                  \
        const OrtSessionOptions*, OrtSession**)                                                                      \
  ENTRY(9, OrtStatus*, Run, OrtSession*, const OrtRunOptions*, const char* const* inputNames,                        \
        const OrtValue* const* inputs, std::size_t inputCount, const char* const* outputNames,                       \
        std::size_t outputCount, OrtValue** outputs)                                                                 \
  ENTRY(10, OrtStatus*, CreateSessionOptions, OrtSessionOptions** out)                                               \
  ENTRY(11, OrtStatus*, SetOptimizedModelFilePath, OrtSessionOptions*, const OrtPathChar* path)                      \
  ENTRY(13, OrtStatus*, SetSessionExecutionMode, OrtSessionOptions*, int mode)                                       \
  ENTRY(14, OrtStatus*, EnableProfiling, OrtSessionOptions*, const OrtPathChar* prefix)                              \
  ENTRY(16, OrtStatus*, EnableMemPattern, OrtSessionOptions*)                                                        \
  ENTRY(17, OrtStatus*, DisableMemPattern, OrtSessionOptions*)                                                       \
  ENTRY(18, OrtStatus*, EnableCpuMemArena, OrtSessionOptions*)                                                       \
  ENTRY(19, OrtStatus*, DisableCpuMemArena, OrtSessionOptions*)                                                      \
  ENTRY(20, OrtStatus*, SetSessionLogId, OrtSessionOptions*, const char* logId)                                      \
  ENTRY(21, OrtStatus*, SetSessionLogVerbosityLevel, OrtSessionOptions*, int level)                                  \
  ENTRY(22, OrtStatus*, SetSessionLogSeverityLevel, OrtSessionOptions*, int level)                                   \
  ENTRY(23, OrtStatus*, SetSessionGraphOptimizationLevel, OrtSessionOptions*, int level)                             \
  ENTRY(24, OrtStatus*, SetIntraOpNumThreads, OrtSessionOptions*, int threads)                                       \
  ENTRY(25, OrtStatus*, SetInterOpNumThreads, OrtSessionOptions*, int threads)                                       \
  ENTRY(30, OrtStatus*, SessionGetInputCount, const OrtSession*, std::size_t* out)                                   \
  ENTRY(31, OrtStatus*, SessionGetOutputCount, const OrtSession*, std::size_t* out)                                  \
  ENTRY(32, OrtStatus*, SessionGetOverridableInitializerCount, const OrtSession*, std::size_t* out)                   \
  ENTRY(33, OrtStatus*, SessionGetInputTypeInfo, const OrtSession*, std::size_t index, OrtTypeInfo** out)            \
  ENTRY(34, OrtStatus*, SessionGetOutputTypeInfo, const OrtSession*, std::size_t index, OrtTypeInfo** out)           \
  ENTRY(35, OrtStatus*, SessionGetOverridableInitializerTypeInfo, const OrtSession*, std::size_t index,              \
        OrtTypeInfo** out)                                                                                           \
  ENTRY(36, OrtStatus*, SessionGetInputName, const OrtSession*, std::size_t index, OrtAllocator*, char** out)        \
  ENTRY(37, OrtStatus*, SessionGetOutputName, const OrtSession*, std::size_t index, OrtAllocator*, char** out)       \
  ENTRY(38, OrtStatus*, SessionGetOverridableInitializerName, const OrtSession*, std::size_t index, OrtAllocator*,    \
        char** out)                                                                                                  \
  ENTRY(39, OrtStatus*, CreateRunOptions, OrtRunOptions** out)                                                       \
  ENTRY(46, OrtStatus*, RunOptionsSetTerminate, OrtRunOptions*)                                                      \
  ENTRY(47, OrtStatus*, RunOptionsUnsetTerminate, OrtRunOptions*)                                                    \
  ENTRY(48, OrtStatus*, CreateTensorAsOrtValue, OrtAllocator*, const std::int64_t* dims, std::size_t rank,           \
        ElementType, OrtValue** out)                                                                                 \
  ENTRY(49, OrtStatus*, CreateTensorWithDataAsOrtValue, const OrtMemoryInfo*, void* data, std::size_t bytes,         \
        const std::int64_t* dims, std::size_t rank, ElementType, OrtValue** out)                                     \
  ENTRY(51, OrtStatus*, GetTensorMutableData, OrtValue*, void** out)                                                 \
  ENTRY(53, OrtStatus*, GetStringTensorDataLength, const OrtValue*, std::size_t* out)                                \
  ENTRY(54, OrtStatus*, GetStringTensorContent, const OrtValue*, void* bytes, std::size_t byteCount,                 \
        std::size_t* offsets, std::size_t offsetCount)                                                               \
  ENTRY(55, OrtStatus*, CastTypeInfoToTensorInfo, const OrtTypeInfo*, const OrtTensorInfo** out)                     \
  ENTRY(56, OrtStatus*, GetOnnxTypeFromTypeInfo, const OrtTypeInfo*, ValueKind* out)                                 \
  ENTRY(60, OrtStatus*, GetTensorElementType, const OrtTensorInfo*, ElementType* out)                                \
  ENTRY(61, OrtStatus*, GetDimensionsCount, const OrtTensorInfo*, std::size_t* out)                                  \
  ENTRY(62, OrtStatus*, GetDimensions, const OrtTensorInfo*, std::int64_t* dims, std::size_t rank)                   \
  ENTRY(63, OrtStatus*, GetSymbolicDimensions, const OrtTensorInfo*, const char** names, std::size_t rank)           \
  ENTRY(65, OrtStatus*, GetTensorTypeAndShape, const OrtValue*, OrtTensorInfo** out)                                 \
  ENTRY(67, OrtStatus*, GetValueType, const OrtValue*, ValueKind* out)                                               \
  ENTRY(69, OrtStatus*, CreateCpuMemoryInfo, int allocatorType, int memoryType, OrtMemoryInfo** out)                 \
  ENTRY(75, OrtStatus*, AllocatorAlloc, OrtAllocator*, std::size_t bytes, void** out)                                \
  ENTRY(76, OrtStatus*, AllocatorFree, OrtAllocator*, void*)                                                         \
  ENTRY(78, OrtStatus*, GetAllocatorWithDefaultOptions, OrtAllocator** out)                                          \
  ENTRY(79, OrtStatus*, AddFreeDimensionOverride, OrtSessionOptions*, const char* denotation, std::int64_t length)   \
  ENTRY(80, OrtStatus*, GetValue, const OrtValue*, int index, OrtAllocator*, OrtValue** out)                         \
  ENTRY(81, OrtStatus*, GetValueCount, const OrtValue*, std::size_t* out)                                            \
  ENTRY(82, OrtStatus*, CreateValue, const OrtValue* const* parts, std::size_t count, ValueKind, OrtValue** out)     \
  ENTRY(93, void, ReleaseStatus, OrtStatus*)                                                                         \
  ENTRY(95, void, ReleaseSession, OrtSession*)                                                                       \
  ENTRY(96, void, ReleaseValue, OrtValue*)                                                                           \
  ENTRY(97, void, ReleaseRunOptions, OrtRunOptions*)                                                                 \
  ENTRY(98, void, ReleaseTypeInfo, OrtTypeInfo*)                                                                     \
  ENTRY(99, void, ReleaseTensorTypeAndShapeInfo, OrtTensorInfo*)                                                     \
  ENTRY(100, void, ReleaseSessionOptions, OrtSessionOptions*)                                                        \
  ENTRY(103, OrtStatus*, CastTypeInfoToMapTypeInfo, const OrtTypeInfo*, const OrtMapInfo** out)                      \
  ENTRY(104, OrtStatus*, CastTypeInfoToSequenceTypeInfo, const OrtTypeInfo*, const OrtSequenceInfo** out)            \
  ENTRY(105, OrtStatus*, GetMapKeyType, const OrtMapInfo*, ElementType* out)                                         \
  ENTRY(106, OrtStatus*, GetMapValueType, const OrtMapInfo*, OrtTypeInfo** out)                                      \
  ENTRY(107, OrtStatus*, GetSequenceElementType, const OrtSequenceInfo*, OrtTypeInfo** out)                          \
  ENTRY(124, OrtStatus*, AddFreeDimensionOverrideByName, OrtSessionOptions*, const char* name, std::int64_t length)  \
  ENTRY(125, OrtStatus*, GetAvailableProviders, char*** names, int* count)                                           \
  ENTRY(126, OrtStatus*, ReleaseAvailableProviders, char** names, int count)                                         \
  ENTRY(130, OrtStatus*, AddSessionConfigEntry, OrtSessionOptions*, const char* key, const char* value)              \
  ENTRY(131, OrtStatus*, CreateAllocator, const OrtSession*, const OrtMemoryInfo*, OrtAllocator** out)               \
  ENTRY(132, void, ReleaseAllocator, OrtAllocator*)                                                                  \
  ENTRY(165, OrtStatus*, AddRunConfigEntry, OrtRunOptions*, const char* key, const char* value)                      \
  ENTRY(170, OrtStatus*, SessionOptionsAppendExecutionProvider_TensorRT_V2, OrtSessionOptions*,                          \
        const OrtTensorRtOptions*)                                                                                   \
  ENTRY(171, OrtStatus*, CreateTensorRTProviderOptions, OrtTensorRtOptions** out)                                    \
  ENTRY(172, OrtStatus*, UpdateTensorRTProviderOptions, OrtTensorRtOptions*, const char* const* keys,                \
        const char* const* values, std::size_t count)                                                                \
  ENTRY(174, void, ReleaseTensorRTProviderOptions, OrtTensorRtOptions*)                                              \
  ENTRY(192, OrtStatus*, HasValue, const OrtValue*, int* out)                                                        \
  ENTRY(204, OrtStatus*, SessionOptionsAppendExecutionProvider_CUDA_V2, OrtSessionOptions*, const OrtCudaOptions*)   \
  ENTRY(205, OrtStatus*, CreateCUDAProviderOptions, OrtCudaOptions** out)                                            \
  ENTRY(206, OrtStatus*, UpdateCUDAProviderOptions, OrtCudaOptions*, const char* const* keys,                        \
        const char* const* values, std::size_t count)                                                                \
  ENTRY(208, void, ReleaseCUDAProviderOptions, OrtCudaOptions*)                                                      \
  ENTRY(216, OrtStatus*, SessionOptionsAppendExecutionProvider, OrtSessionOptions*, const char* name,                \
        const char* const* keys, const char* const* values, std::size_t count)                                                          \
  ENTRY(250, OrtStatus*, CastTypeInfoToOptionalTypeInfo, const OrtTypeInfo*, const OrtOptionalInfo** out)            \
  ENTRY(251, OrtStatus*, GetOptionalContainedTypeInfo, const OrtOptionalInfo*, OrtTypeInfo** out)                    \
  ENTRY(252, OrtStatus*, GetResizedStringTensorElementBuffer, OrtValue*, std::size_t index, std::size_t bytes, char** out)   \
  ENTRY(279, OrtStatus*, AddExternalInitializersFromFilesInMemory, OrtSessionOptions*, const OrtPathChar* const* names,\
        char* const* contents, const std::size_t* lengths, std::size_t count)                                        \
  ENTRY(293, OrtStatus*, SessionOptionsSetLoadCancellationFlag, OrtSessionOptions*, bool cancel)                     \
  ENTRY(297, const char*, GetKeyValue, const OrtKeyValuePairs*, const char* key)                                     \
  ENTRY(298, void, GetKeyValuePairs, const OrtKeyValuePairs*, const char* const** keys, const char* const** values,  \
        std::size_t* count)                                                                                          \
  ENTRY(300, void, ReleaseKeyValuePairs, OrtKeyValuePairs*)                                                          \
  ENTRY(301, OrtStatus*, RegisterExecutionProviderLibrary, OrtEnv*, const char* name, const OrtPathChar* path)       \
  ENTRY(303, OrtStatus*, GetEpDevices, const OrtEnv*, const OrtEpDevice* const** devices, std::size_t* count)        \
  ENTRY(304, OrtStatus*, SessionOptionsAppendExecutionProvider_V2, OrtSessionOptions*, OrtEnv*,                      \
        const OrtEpDevice* const* devices, std::size_t deviceCount, const char* const* keys, const char* const* values,\
        std::size_t count)                                                                                           \
  ENTRY(307, HardwareKind, HardwareDevice_Type, const OrtHardwareDevice*)                                            \
  ENTRY(309, const char*, HardwareDevice_Vendor, const OrtHardwareDevice*)                                           \
  ENTRY(312, const char*, EpDevice_EpName, const OrtEpDevice*)                                                       \
  ENTRY(313, const char*, EpDevice_EpVendor, const OrtEpDevice*)                                                     \
  ENTRY(314, const OrtKeyValuePairs*, EpDevice_EpMetadata, const OrtEpDevice*)                                       \
  ENTRY(316, const OrtHardwareDevice*, EpDevice_Device, const OrtEpDevice*)                                          \
  ENTRY(319, OrtStatus*, AllocatorGetStats, const OrtAllocator*, OrtKeyValuePairs** out)

struct OrtApi {
#define ZEROHOP_ORT_FIELD(place, result, name, ...) result (*name)(__VA_ARGS__) = nullptr;
  ZEROHOP_ORT_ENTRIES(ZEROHOP_ORT_FIELD)
#undef ZEROHOP_ORT_FIELD

  // Reads the entries from the table that `GetApi` returned.
  static OrtApi from(const void* table) {
    OrtApi api;
    [[maybe_unused]] void* const* entries = static_cast<void* const*>(table);
#define ZEROHOP_ORT_READ(place, result, name, ...) api.name = reinterpret_cast<decltype(api.name)>(entries[place]);
    ZEROHOP_ORT_ENTRIES(ZEROHOP_ORT_READ)
#undef ZEROHOP_ORT_READ
    return api;
  }
};

}  // namespace zerohop::ort
